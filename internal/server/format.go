package server

import (
	"errors"
	"fmt"
	"time"

	"moldau/internal/config"
	"moldau/internal/controller"
	"moldau/internal/kafka"
	"moldau/internal/quorum"
	"moldau/internal/raft"
	"moldau/internal/seglog/logdir"
	"moldau/internal/vfs"
)

// FormatOptions say how to format the directories of a node.
type FormatOptions struct {
	FS        vfs.FS
	Config    *config.Server
	ClusterID string
	// Standalone: this node alone is the quorum of kraft.version 1.
	Standalone bool
	// Initial are the voters of --initial-controllers, kraft.version 1.
	Initial raft.VoterSet
	// KRaft is kraft.version if neither of them is given: 0 with
	// controller.quorum.voters, 1 with --no-initial-controllers.
	KRaft int16
	// Records set the features and may add more.
	Records []controller.VersionedRecord
	// Skip leaves directories alone that are formatted (--ignore-formatted).
	Skip func(dir string) bool
	Now  time.Time
}

// Format writes meta.properties into each directory and, first of all, the
// bootstrap checkpoint into the metadata directory: meta.properties is what
// makes a directory count as formatted.
func Format(o FormatOptions) error {
	c := o.Config
	ids := map[string]kafka.DirectoryID{}
	for _, dir := range Directories(c) {
		ids[dir] = kafka.DirectoryID(NewUUID())
	}
	kraft, voters := o.KRaft, o.Initial
	if v, ok := o.Initial.Find(c.NodeID); ok {
		ids[c.MetadataLogDir] = v.Key.Dir
	}
	if o.Standalone {
		var err error
		if voters, err = raft.NewVoterSet(raft.Voter{
			Key:       raft.ReplicaKey{ID: c.NodeID, Dir: ids[c.MetadataLogDir]},
			Endpoints: controllerEndpoints(c), MinKRaft: 0, MaxKRaft: 1,
		}); err != nil {
			return err
		}
	}
	if voters.Len() > 0 {
		kraft = 1
	}
	if o.Skip == nil || !o.Skip(c.MetadataLogDir) {
		err := quorum.Format(quorum.FormatOptions{
			FS: o.FS, Dir: c.MetadataLogDir, KRaft: kraft, Voters: voters, Records: o.Records, Now: kafka.WallMs(o.Now.UnixMilli()),
		})
		if err != nil && !errors.Is(err, quorum.ErrFormatted) {
			return err
		}
	}
	for _, dir := range Directories(c) {
		if o.Skip != nil && o.Skip(dir) {
			continue
		}
		if err := o.FS.MkdirAll(dir); err != nil {
			return fmt.Errorf("format %s: %w", dir, err)
		}
		m := logdir.MetaProperties{ClusterID: o.ClusterID, NodeID: c.NodeID, DirectoryID: ids[dir]}
		if err := logdir.WriteMetaProperties(o.FS, dir, m, o.Now); err != nil {
			return fmt.Errorf("format %s: %w", dir, err)
		}
	}
	return nil
}
