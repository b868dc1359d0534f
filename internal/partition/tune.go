package partition

import (
	"slices"
	"strconv"

	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// tuned are the broker settings that the Store takes at run time, beside those
// that topics fall back to.
type tuned struct {
	producerExpireMs int64
	folderWaitMs     int64    // how long a deleted partition's folder stays
	cordoned         []string // directories that get no new replicas; "*" is all
}

// tune takes in the broker's dynamic settings. What is not set dynamically is as
// the Options say.
func (s *Store) tune(img *metadata.Image) {
	l := s.Layers(img, "")
	t := &tuned{producerExpireMs: s.opts.ProducerExpireMs, folderWaitMs: s.opts.DeletedFolderWaitMs}
	for name, to := range map[string]*int64{"producer.id.expiration.ms": &t.producerExpireMs, "log.segment.delete.delay.ms": &t.folderWaitMs} {
		if v, ok := dynamicValue(l, name); ok {
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				*to = n
			}
		}
	}
	cordoned, _ := l.BrokerValue("cordoned.log.dirs")
	t.cordoned = config.SplitList(cordoned)
	s.tuned.Store(t)
	s.env.ProducerExpirationMs.Store(t.producerExpireMs)
}

func dynamicValue(l config.Layers, name string) (string, bool) {
	for _, layer := range []config.Lookup{l.Broker, l.Default} {
		if layer == nil {
			continue
		}
		if v, ok := layer(name); ok {
			return v, true
		}
	}
	return "", false
}

// isCordoned tells whether a directory gets no new replicas (KIP-1066).
func (t *tuned) isCordoned(path string) bool {
	return slices.Contains(t.cordoned, "*") || slices.Contains(t.cordoned, path)
}

// CordonedDirs lists the log directories that get no new replicas.
func (s *Store) CordonedDirs() (out []kafka.DirectoryID) {
	t := s.tuned.Load()
	for _, d := range s.dirs {
		if t.isCordoned(d.Path) {
			out = append(out, d.ID)
		}
	}
	return out
}
