package interop

import (
	"os/exec"
	"regexp"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
)

// growing collects the output of a process while it runs.
type growing struct {
	mu   sync.Mutex
	text strings.Builder
	news chan struct{} // closed and made anew with each write
}

func newGrowing() *growing { return &growing{news: make(chan struct{})} }

func (g *growing) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.text.Write(p)
	close(g.news)
	g.news = make(chan struct{})
	return len(p), nil
}

func (g *growing) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.String()
}

// await waits until the output matches.
func (g *growing) await(re *regexp.Regexp, limit time.Duration) bool {
	end := time.After(limit)
	for {
		g.mu.Lock()
		text, news := g.text.String(), g.news
		g.mu.Unlock()
		if re.MatchString(text) {
			return true
		}
		select {
		case <-news:
		case <-end:
			return false
		}
	}
}

func endProcess(cmd *exec.Cmd)  { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
func killProcess(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

func sortLines(l []string) { sort.Strings(l) }
