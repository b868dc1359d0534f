package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/quorum"
	"moldau/internal/seglog/logdir"
	"moldau/internal/vfs"
)

// Storage is what the log directories say, checked and locked.
type Storage struct {
	ClusterID  string
	Dirs       []StorageDir // in the order of log.dirs
	MetadataID kafka.DirectoryID

	locks         []io.Closer
	whole         bool              // the configuration names this node as the whole quorum
	previousEpoch kafka.BrokerEpoch // of the last run, if it stopped cleanly
}

// StorageDir is one log directory.
type StorageDir struct {
	Path string
	ID   kafka.DirectoryID
}

// NewUUID draws a UUID that Kafka would hand out.
func NewUUID() kafka.UUID {
	for {
		var b [16]byte
		if _, err := rand.Read(b[:]); err != nil {
			panic(err) // documented never to happen
		}
		if u, ok := kafka.NewUUID(b); ok {
			return u
		}
	}
}

// Directories lists all directories that a node uses, each once.
func Directories(c *config.Server) []string {
	dirs := slices.Clone(c.LogDirs)
	if !slices.Contains(dirs, c.MetadataLogDir) {
		dirs = append(dirs, c.MetadataLogDir)
	}
	return dirs
}

// LockStorage takes the locks of all directories of a node, making them if
// they are missing.
func LockStorage(fsys vfs.FS, c *config.Server) (*Storage, error) {
	st := &Storage{previousEpoch: kafka.NoBrokerEpoch, whole: wholeQuorum(c)}
	for _, dir := range Directories(c) {
		if err := st.lock(fsys, dir); err != nil {
			st.Unlock()
			return nil, err
		}
	}
	return st, nil
}

// Open formats the directories if the node may do so by itself, and checks
// that they belong to this node and to one cluster.
func (st *Storage) Open(fsys vfs.FS, c *config.Server) error {
	metas, err := readMetas(fsys, c)
	if err != nil {
		return err
	}
	if len(metas) == 0 {
		if err := st.formatItself(fsys, c); err != nil {
			return err
		}
		if metas, err = readMetas(fsys, c); err != nil {
			return err
		}
	}
	if err := st.check(c, metas); err != nil {
		return err
	}
	return st.identify(fsys, c, metas)
}

// identify makes sure that every directory has an id of its own: one formatted
// before Kafka 3.7 gets one (KafkaRaftServer.initializeLogDirs), and a copy of
// another, or metadata in two places, refuses.
func (st *Storage) identify(fsys vfs.FS, c *config.Server, metas map[string]logdir.MetaProperties) error {
	seen := map[kafka.DirectoryID]string{}
	for _, dir := range Directories(c) {
		m := metas[dir]
		if m.DirectoryID == (kafka.DirectoryID{}) {
			m.DirectoryID = kafka.DirectoryID(NewUUID())
			if err := logdir.WriteMetaProperties(fsys, dir, m, time.Now()); err != nil {
				return fmt.Errorf("give %s a directory.id: %w", dir, err)
			}
		}
		if kafka.UUID(m.DirectoryID).Reserved() {
			return fmt.Errorf("log directory %s: directory.id %s in its meta.properties is reserved; restore the file", dir, m.DirectoryID)
		}
		if other, ok := seen[m.DirectoryID]; ok {
			return fmt.Errorf("log directories %s and %s have the same directory.id %s: one is a copy; remove it from log.dirs", other, dir, m.DirectoryID)
		}
		seen[m.DirectoryID] = dir
		if dir == c.MetadataLogDir {
			st.MetadataID = m.DirectoryID
		} else if _, err := fsys.Stat(dir + "/" + quorum.Folder); err == nil {
			return fmt.Errorf("log directory %s holds %s, but the metadata directory is %s; set metadata.log.dir=%s, or move the folder elsewhere",
				dir, quorum.Folder, c.MetadataLogDir, dir)
		}
		if slices.Contains(c.LogDirs, dir) {
			st.Dirs = append(st.Dirs, StorageDir{Path: dir, ID: m.DirectoryID})
		}
	}
	return nil
}

// lock takes the .lock file, which a JVM respects too.
func (st *Storage) lock(fsys vfs.FS, dir string) error {
	if err := fsys.MkdirAll(dir); err != nil {
		return fmt.Errorf("log directory %s: %w", dir, err)
	}
	l, err := fsys.Lock(dir + "/.lock")
	if err != nil {
		var held *vfs.LockedError
		if errors.As(err, &held) {
			who := "another server"
			if held.PID != 0 {
				who = fmt.Sprintf("process %d", held.PID)
			}
			return fmt.Errorf("log directory %s is in use by %s; stop it, or set another log.dirs", dir, who)
		}
		return fmt.Errorf("log directory %s: %w", dir, err)
	}
	st.locks = append(st.locks, l)
	return nil
}

// Unlock lets go of the directories.
func (st *Storage) Unlock() {
	for _, l := range st.locks {
		l.Close()
	}
	st.locks = nil
}

// readMetas reads meta.properties of every directory that has one.
func readMetas(fsys vfs.FS, c *config.Server) (map[string]logdir.MetaProperties, error) {
	metas := map[string]logdir.MetaProperties{}
	for _, dir := range Directories(c) {
		m, err := logdir.ReadMetaProperties(fsys, dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		metas[dir] = m
	}
	return metas, nil
}

func (st *Storage) check(c *config.Server, metas map[string]logdir.MetaProperties) error {
	for _, dir := range Directories(c) {
		m, ok := metas[dir]
		switch {
		case !ok:
			return fmt.Errorf("log directory %s is not formatted, though others are; type: moldau storage format --config <file> --cluster-id %s --ignore-formatted", dir, anyCluster(metas))
		case m.NodeID != c.NodeID:
			return fmt.Errorf("log directory %s belongs to node %d, but node.id is %d; set node.id=%d or another log.dirs", dir, m.NodeID, c.NodeID, m.NodeID)
		case st.ClusterID != "" && m.ClusterID != st.ClusterID:
			return fmt.Errorf("log directory %s belongs to cluster %s, the others to %s; remove it from log.dirs", dir, m.ClusterID, st.ClusterID)
		}
		st.ClusterID = m.ClusterID
	}
	return nil
}

func anyCluster(metas map[string]logdir.MetaProperties) string {
	for _, m := range metas {
		return m.ClusterID
	}
	return "<id>"
}

// formatItself formats empty directories of a node that is the whole quorum.
func (st *Storage) formatItself(fsys vfs.FS, c *config.Server) error {
	for _, dir := range Directories(c) {
		list, err := fsys.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("log directory %s: %w", dir, err)
		}
		for _, e := range list {
			if e.Name != ".lock" && e.Name != "lost+found" {
				return fmt.Errorf("log directory %s has no meta.properties, but is not empty (%s is in it); restore that file, or if the folder is meant for this node, empty it and type: %s", dir, e.Name, st.formatLine())
			}
		}
	}
	if !st.whole {
		return fmt.Errorf("log directory %s is not formatted; type: moldau storage format --config <file> --cluster-id <the cluster's id>, or name this node's controller listener in controller.quorum.bootstrap.servers, and it formats itself", c.MetadataLogDir)
	}
	records, err := ClusterFeatures("", nil)
	if err != nil {
		return err
	}
	return Format(FormatOptions{FS: fsys, Config: c, ClusterID: NewUUID().String(), Standalone: len(c.Voters) == 0, Records: records, Now: time.Now()})
}

// formatLine is how to format a directory of this node.
func (st *Storage) formatLine() string {
	if st.whole {
		return "moldau storage format --config <file> --cluster-id $(moldau storage random-uuid) --standalone"
	}
	return "moldau storage format --config <file> --cluster-id <the cluster's id>"
}

// wholeQuorum tells whether the configuration names this node as the only
// controller.
func wholeQuorum(c *config.Server) bool {
	if !c.Controller {
		return false
	}
	if len(c.Voters) > 0 {
		return len(c.Voters) == 1 && c.Voters[0].ID == c.NodeID
	}
	if len(c.BootstrapServers) != 1 {
		return false
	}
	for _, list := range [][]config.Listener{c.Listeners, c.Advertised} {
		for _, l := range list {
			if c.IsControllerListener(l.Name) && sameAddress(l, c.BootstrapServers[0]) {
				return true
			}
		}
	}
	return false
}

// sameAddress tells whether address is that of a listener of this node.
func sameAddress(l config.Listener, address string) bool {
	if l.Address() == address {
		return true
	}
	i := strings.LastIndexByte(address, ':')
	local := l.Host == "" || l.Host == "localhost" || l.Host == "127.0.0.1" || l.Host == "0.0.0.0"
	return i > 0 && address[i+1:] == fmt.Sprint(l.Port) && local && (address[:i] == "localhost" || address[:i] == "127.0.0.1")
}

// controllerEndpoints are the advertised listeners of this controller, the one
// that controller.listener.names names first in front.
func controllerEndpoints(c *config.Server) []kafka.Endpoint {
	var out []kafka.Endpoint
	for _, name := range c.ControllerListeners {
		for _, l := range c.Advertised {
			if l.Name == name {
				out = append(out, kafka.Endpoint{Name: l.Name, Host: hostOf(l), Port: l.Port, Protocol: l.Protocol})
			}
		}
	}
	return out
}

// hostOf is the name to tell others; a listener on every address has none.
func hostOf(l config.Listener) string {
	if l.Host != "" {
		return l.Host
	}
	return "localhost"
}
