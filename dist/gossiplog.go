package dist

import (
	"context"
	"log"
	"log/slog"
	"strings"
	"time"
)

// gossipLogger turns memberlist's lines, "[LEVEL] memberlist: text", into
// records of slog.
func gossipLogger(to *slog.Logger) *log.Logger {
	return log.New(&gossipWriter{to: to, told: map[string]time.Time{}}, "", 0)
}

// gossipWriter is used by one goroutine at a time, as log.Logger promises.
type gossipWriter struct {
	to   *slog.Logger
	told map[string]time.Time // warnings of the last gossipPause
}

// Of warnings that differ in nothing but whom they are about one is logged in a
// gossipPause: strangers come once a second, and must not fill a disk. Of so many
// kinds, which strangers might make up, the pauses are forgotten.
const (
	gossipPause = time.Minute
	maxTold     = 64
)

func (w *gossipWriter) Write(line []byte) (int, error) {
	level, text := parseGossipLine(string(line))
	if level >= slog.LevelWarn && w.again(text) {
		return len(line), nil
	}
	w.to.Log(context.Background(), level, text)
	return len(line), nil
}

// again tells whether there was such a warning lately.
func (w *gossipWriter) again(text string) bool {
	kind, _, _ := strings.Cut(text, " from=")
	now := time.Now()
	if at, ok := w.told[kind]; ok && now.Sub(at) < gossipPause {
		return true
	}
	if len(w.told) >= maxTold {
		clear(w.told)
	}
	w.told[kind] = now
	return false
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
