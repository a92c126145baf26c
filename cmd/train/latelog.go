package main

import (
	"fmt"
	"os"
	"sync"
)

// lateLog keeps what is logged until there is a file for it. The zero value is ready.
type lateLog struct {
	mu   sync.Mutex
	kept []byte
	file *os.File
}

// maxKeptLog bounds what is kept for a file.
const maxKeptLog = 1 << 16

func (l *lateLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		return l.file.Write(p)
	}
	if len(l.kept)+len(p) <= maxKeptLog {
		l.kept = append(l.kept, p...)
	}
	return len(p), nil
}

func (l *lateLog) open(path string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	l.file = f
	_, err = f.Write(l.kept)
	l.kept = nil
	return err
}

func (l *lateLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file, l.kept = nil, nil
	return err
}
