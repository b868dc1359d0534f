package partition

import "moldau/internal/producerstate"

// Producers tells what is known of those who have written to the partition with
// a producer id; false if there is no log to know it.
func (p *Partition) Producers() ([]producerstate.Entry, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	log := p.log.Load()
	if log == nil || p.dir.failed.Load() {
		return nil, false
	}
	return log.Producers().Snapshot(), true
}
