package logdir

import (
	"strconv"
	"strings"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// Kind says what a folder of a log directory is.
type Kind uint8

// The kinds of folders.
const (
	Foreign  Kind = iota // not Kafka's: a start refuses
	Log                  // topic-N
	Metadata             // __cluster_metadata-0, which belongs to the quorum
	Deleted              // topic-N.hex-delete: to be removed
	Future               // topic-N.hex-future: a replica that moves between directories
	Stray                // topic-N.hex-stray: not ours any more, kept for the operator
	Cache                // remote-log-index-cache, which Kafka skips
)

// Endings of folder names.
const (
	deleteSuffix = "-delete"
	futureSuffix = "-future"
	straySuffix  = "-stray"

	remoteIndexCache = "remote-log-index-cache"
	maxNameLength    = 255
)

// Folder is one folder of a log directory.
type Folder struct {
	Name string
	Kind Kind
	// TopicPartition is set unless Kind is Foreign or Cache. The topic of a
	// Deleted or Stray folder may be cut short.
	kafka.TopicPartition
}

// ParseFolder tells what a folder is by its name (UnifiedLog.parseTopicPartitionName).
func ParseFolder(name string) Folder {
	f := Folder{Name: name}
	if name == remoteIndexCache {
		f.Kind = Cache
		return f
	}
	kind, rest := Log, name
	for suffix, k := range map[string]Kind{deleteSuffix: Deleted, futureSuffix: Future, straySuffix: Stray} {
		if !strings.HasSuffix(name, suffix) {
			continue
		}
		dot := strings.LastIndexByte(name, '.')
		if dot < 0 || dot+1 == len(name)-len(suffix) {
			return f
		}
		kind, rest = k, name[:dot]
	}
	dash := strings.LastIndexByte(rest, '-')
	if dash <= 0 {
		return f
	}
	p, err := strconv.ParseInt(rest[dash+1:], 10, 32)
	if err != nil || p < 0 {
		return f
	}
	f.Topic, f.Partition, f.Kind = rest[:dash], kafka.PartitionID(p), kind
	if f.Topic == kafka.ClusterMetadataTopic && kind == Log {
		f.Kind = Metadata
	}
	return f
}

// List tells what is in a log directory. Files are not listed: Kafka ignores
// those it does not know.
func List(fsys vfs.FS, dir string) ([]Folder, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []Folder
	for _, e := range entries {
		if e.IsDir {
			out = append(out, ParseFolder(e.Name))
		}
	}
	return out, nil
}

// DeletedName is the name that a log's folder gets before it is removed. unique
// is 32 hex digits. Topic names that are too long are cut.
func DeletedName(tp kafka.TopicPartition, unique string) string {
	return suffixed(tp, unique, deleteSuffix)
}

// StrayName is the name of a folder whose log the cluster does not place here.
func StrayName(tp kafka.TopicPartition, unique string) string {
	return suffixed(tp, unique, straySuffix)
}

// FutureName is the name of a folder that is being filled to replace another.
func FutureName(tp kafka.TopicPartition, unique string) string {
	return tp.String() + "." + unique + futureSuffix
}

func suffixed(tp kafka.TopicPartition, unique, suffix string) string {
	tail := "-" + strconv.Itoa(int(tp.Partition)) + "." + unique + suffix
	return tp.Topic[:min(len(tp.Topic), maxNameLength-len(tail))] + tail
}
