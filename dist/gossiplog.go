package dist

import (
	"context"
	"log"
	"log/slog"
	"strings"
)

// gossipLogger turns memberlist's lines, "[LEVEL] memberlist: text", into
// records of slog.
func gossipLogger(to *slog.Logger) *log.Logger {
	return log.New(gossipWriter{to}, "", 0)
}

type gossipWriter struct{ to *slog.Logger }

func (w gossipWriter) Write(line []byte) (int, error) {
	level, text := parseGossipLine(string(line))
	w.to.Log(context.Background(), level, text)
	return len(line), nil
}

// An error of the gossip (a stranger's bytes, a peer that is down) ends
// nothing here, so that it is a warning.
var gossipLevels = map[string]slog.Level{
	"DEBUG": slog.LevelDebug,
	"INFO":  slog.LevelInfo,
	"WARN":  slog.LevelWarn,
	"ERR":   slog.LevelWarn,
	"ERROR": slog.LevelWarn,
}

func parseGossipLine(line string) (slog.Level, string) {
	text := strings.TrimSpace(line)
	level := slog.LevelInfo
	if name, rest, ok := strings.Cut(strings.TrimPrefix(text, "["), "] "); ok && text[0] == '[' {
		if known, ok := gossipLevels[name]; ok {
			level, text = known, rest
		}
	}
	return level, strings.TrimPrefix(text, "memberlist: ")
}
