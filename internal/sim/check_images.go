package sim

import (
	"encoding/json"
	"fmt"
	"slices"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/quorum"
	"moldau/internal/raft"
	"moldau/internal/record"
	"moldau/internal/vfs"
)

// imageChecker: the image at an offset is the same on all nodes, however they
// came by it: the same as one fold over the committed log from its start
// (HC-038, HC-040, HC-045). So a snapshot with the tail behind it is worth the
// whole log.
type imageChecker struct {
	w      *World
	img    *metadata.Image                  // at the end of what is committed
	images map[kafka.Offset]*metadata.Image // by end offset
	hashes map[kafka.Offset][32]byte        // of those that were asked for
}

func newImageChecker(w *World) *imageChecker {
	return &imageChecker{w: w, img: metadata.Empty(), images: map[kafka.Offset]*metadata.Image{0: metadata.Empty()}, hashes: map[kafka.Offset][32]byte{}}
}

// committed folds a batch. It gives the delta, nil for a control batch, and the
// batch's records.
func (c *imageChecker) committed(b raft.Batch) (*metadata.Delta, []record.Message) {
	view := batch.Batch(b.Bytes)
	p := metadata.Provenance{EndOffset: b.Last + 1, Epoch: b.Epoch, TimestampMs: view.MaxTimestamp()}
	delta := metadata.NewDelta(c.img)
	var records []record.Message
	if !view.Control() {
		err := view.EachRecord(func(r *batch.Record) error {
			m, _, err := record.DecodeMetadata(r.Value)
			if err != nil {
				return err
			}
			records = append(records, m)
			return delta.Replay(m)
		})
		if err != nil {
			c.w.violate("image", "the committed batch at %d does not apply: %v", b.Base, err)
			return nil, nil
		}
	}
	c.img = delta.Apply(p)
	c.images[b.Last+1] = c.img
	if view.Control() {
		return nil, nil
	}
	return delta, records
}

// oneIn is which part of the images is compared whole.
const oneIn = 16

func (c *imageChecker) published(n *node, img *metadata.Image) {
	if c.w.rng.IntN(oneIn) == 0 {
		c.compare(img, fmt.Sprintf("node %d", n.id))
	}
}

// loaded compares an image that came from a snapshot.
func (c *imageChecker) loaded(n *node, img *metadata.Image) {
	c.compare(img, fmt.Sprintf("node %d, from its snapshot", n.id))
}

func (c *imageChecker) compare(img *metadata.Image, who string) {
	end := img.Provenance().EndOffset
	want, ok := c.hashes[end]
	if !ok {
		at := c.images[end]
		if at == nil {
			c.w.violate("image", "%s shows offset %d, where no committed batch ends", who, end)
			return
		}
		want = at.Hash()
		c.hashes[end] = want
	}
	if img.Hash() != want {
		c.w.violate("image", "%s has another state at offset %d: %s", who, end, difference(c.images[end], img))
	}
}

// reload recovers a copy of a node's disk a second time and replays its tail.
func (c *imageChecker) reload(n *node) {
	n.noteDisk()
	mem := vfs.NewMem()
	folder := "data/" + quorum.Folder
	if err := mem.MkdirAll(folder); err != nil {
		panic(err)
	}
	list, err := n.mem.ReadDir(folder)
	if err != nil {
		panic(err)
	}
	for _, e := range list {
		data, err := vfs.ReadFile(n.mem, folder+"/"+e.Name)
		if err == nil {
			err = vfs.WriteFileAtomic(mem, folder+"/"+e.Name, data)
		}
		if err != nil {
			panic(err)
		}
	}
	opts := n.options()
	opts.FS, opts.Controller, opts.Warn = mem, nil, func(msg string, err error) { c.w.note("reload warns: %s: %v", msg, err) }
	r, err := quorum.OpenReplica(opts, executor{n, -1})
	if err != nil {
		c.w.violate("reload", "node %d: a copy of its disk does not open: %v", n.id, err)
		return
	}
	who := fmt.Sprintf("node %d, reloaded,", n.id)
	c.compare(r.Image(), who)
	delta, p := metadata.NewDelta(r.Image()), r.Image().Provenance()
	// What was not synced may be cut: epochs are stored when a flush asks for it.
	end := max(p.EndOffset, min(n.applied, r.Core().EndOffset()))
	err = r.Store().Batches(p.EndOffset, end, func(b raft.Batch) error {
		view := batch.Batch(b.Bytes)
		p = metadata.Provenance{EndOffset: b.Last + 1, Epoch: b.Epoch}
		if view.Control() {
			return nil
		}
		return view.EachRecord(func(r *batch.Record) error {
			m, _, err := record.DecodeMetadata(r.Value)
			if err != nil {
				return err
			}
			return delta.Replay(m)
		})
	})
	if err != nil {
		c.w.violate("reload", "%s: %v", who, err)
		return
	}
	c.compare(delta.Apply(p), who)
}

// difference lists the records that only one of two images would write, up to a
// few.
func difference(want, got *metadata.Image) string {
	lines := func(img *metadata.Image) (out []string) {
		_ = img.WriteSnapshot(func(m record.Message, _ int16) error {
			text, _ := json.Marshal(m) // follows pointers
			out = append(out, m.Kind()+string(text))
			return nil
		})
		return out
	}
	a, b := lines(want), lines(got)
	s := ""
	for side, list := range [][]string{a, b} {
		other := [][]string{b, a}[side]
		shown := 0
		for _, l := range list {
			if !slices.Contains(other, l) && shown < 3 {
				shown++
				s += []string{" want ", " has "}[side] + l
			}
		}
	}
	return s
}
