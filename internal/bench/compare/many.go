package compare

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// many measures a server with many partitions: creation, rest, stop, restart, and
// restart after SIGKILL.
func (r *run) many(ctx context.Context, dir string) error {
	total := r.ManyTopics * r.ManyPartitions
	n, err := r.server.start(dir, r.Port)
	if err != nil {
		return err
	}
	defer func() { _, _ = n.end(syscall.SIGKILL) }() // n is the last one started
	if _, err := n.ready(ctx, serving); err != nil {
		return err
	}
	r.step(fmt.Sprintf("create %d partitions", total))
	if err := r.create(ctx, n, total); err != nil {
		return err
	}
	r.step("idle with many partitions")
	if err := r.idle(ctx, n, "many_idle_cpu", "many_idle_rss_mb"); err != nil {
		return err
	}
	r.step("stop and restart with many partitions")
	took, err := n.end(syscall.SIGTERM)
	if err != nil {
		return err
	}
	r.out.add("many_stop_s", took.Seconds())
	next, err := r.boot(ctx, dir, "many_restart_s", usable(total))
	if err != nil {
		return err
	}
	n = next
	r.step("kill and restart with many partitions")
	if _, err := n.end(syscall.SIGKILL); err != nil {
		return err
	}
	if next, err = r.boot(ctx, dir, "many_killed_s", usable(total)); err != nil {
		return err
	}
	n = next
	return nil
}

// create creates all topics, a batch at a time, and waits until every partition
// is usable.
func (r *run) create(ctx context.Context, n *node, total int) error {
	begin := time.Now()
	err := tryProbe(ctx, n.address, func(p *probe) error {
		for first := 0; first < r.ManyTopics; first += createBatch {
			if err := createTopics(p, first, min(createBatch, r.ManyTopics-first), r.ManyPartitions); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := n.ready(ctx, usable(total)); err != nil {
		return err
	}
	took := time.Since(begin).Seconds()
	r.out.add("many_usable_s", took)
	r.out.add("many_create_rate", float64(total)/took)
	return nil
}
