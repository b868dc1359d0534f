package handler

import (
	"log/slog"
	"slices"
	"strings"

	"moldau/internal/config"
	"moldau/internal/kafka"
)

// rootLogger is the name of the one logger that a node has, as Kafka calls it.
const rootLogger = "root"

// Levels that slog has no name for.
const (
	levelTrace = slog.LevelDebug - 4
	levelFatal = slog.LevelError + 4
)

// levelNames are Kafka's names of log levels.
func levelNames() []string { return []string{"DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN"} }

func levelOf(name string) slog.Level {
	at := slices.Index(levelNames(), strings.ToUpper(name))
	return []slog.Level{slog.LevelDebug, slog.LevelError, levelFatal, slog.LevelInfo, levelTrace, slog.LevelWarn}[at]
}

// nameOf gives the least level that lets through what l does.
func nameOf(l slog.Level) string {
	switch {
	case l <= levelTrace:
		return "TRACE"
	case l <= slog.LevelDebug:
		return "DEBUG"
	case l <= slog.LevelInfo:
		return "INFO"
	case l <= slog.LevelWarn:
		return "WARN"
	case l <= slog.LevelError:
		return "ERROR"
	}
	return "FATAL"
}

// loggerEntries describes the levels of this node's loggers.
func (h *Handler) loggerEntries(name string) ([]config.Entry, kafka.ErrorCode, string) {
	if name == "" {
		return nil, kafka.ErrInvalidRequest, "Broker id must not be empty"
	}
	if why := h.notThisNode(name); why != "" {
		return nil, kafka.ErrInvalidRequest, why
	}
	if h.opts.LogLevel == nil {
		return nil, 0, ""
	}
	level := nameOf(h.opts.LogLevel.Level())
	return []config.Entry{{Name: rootLogger, Value: &level, Source: config.SourceBrokerLogger}}, 0, ""
}
