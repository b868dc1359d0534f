package quorum

import (
	"errors"
	"fmt"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/raft"
	"moldau/internal/record"
)

// sealedImage is a downloaded snapshot that has been verified, with the image
// that it holds, or the reason why not.
type sealedImage struct {
	id      kafka.OffsetAndEpoch
	image   *metadata.Image
	control []raft.Control
	err     error
}

// seal verifies and loads a downloaded snapshot off the loop.
func (q *Replica) seal(job SealJob) {
	var done *sealedImage
	q.exec.Background(func() error {
		done = sealSnapshot(job)
		return nil
	}, func(error) { q.sealed(done) })
}

func sealSnapshot(job SealJob) *sealedImage {
	delta := metadata.NewDelta(metadata.Empty())
	sealed, err := job.Run(func(m record.Message, _ int16) error { return delta.Replay(m) })
	if err != nil {
		return &sealedImage{id: job.ID, err: err}
	}
	img := delta.Apply(metadata.Provenance{EndOffset: job.ID.Offset, Epoch: job.ID.Epoch, TimestampMs: sealed.LastContained})
	return &sealedImage{id: job.ID, image: img, control: sealed.Control}
}

// sealed gives a verified snapshot to raft. A damaged one is downloaded again;
// one that cannot be applied is as fatal as such a record in the log (HC-045).
func (q *Replica) sealed(s *sealedImage) {
	if s.err != nil && !errors.Is(s.err, ErrSnapshot) {
		q.fail(fmt.Errorf("load snapshot %s: %w", snapshotName(s.id), s.err))
		return
	}
	if s.err != nil {
		q.warn("a downloaded snapshot is damaged and was dropped", s.err)
	}
	q.fetched = s
	q.step(raft.SnapshotSealed{ID: s.id, Control: s.control, Bad: s.err != nil})
	q.fetched = nil
}

// LoadSnapshot implements App: the image becomes the snapshot's in one step,
// with what is gone among the changes (HC-038).
func (q *Replica) LoadSnapshot(id kafka.OffsetAndEpoch) error {
	f := q.fetched
	if f == nil || f.id != id {
		return fmt.Errorf("snapshot %s is to be loaded, but is not there", snapshotName(id))
	}
	delta := metadata.Diff(q.image.Load(), f.image)
	q.tip, q.pending = f.image, nil
	q.publish(delta, f.image, 0)
	q.snap.begin()
	return nil
}
