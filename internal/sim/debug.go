package sim

import (
	"fmt"

	"moldau/internal/quorum"
	"moldau/internal/vfs"
)

// noteDisk adds what is on a node's disk to the trace.
func (n *node) noteDisk() {
	if n.w.cfg.Trace == nil {
		return
	}
	folder := "data/" + quorum.Folder
	list, _ := n.mem.ReadDir(folder)
	s := ""
	for _, e := range list {
		info, _ := n.mem.Stat(folder + "/" + e.Name)
		s += fmt.Sprintf(" %s:%d", e.Name, info.SizeBytes)
		if e.Name == "leader-epoch-checkpoint" || e.Name == "quorum-state" {
			data, _ := vfs.ReadFile(n.mem, folder+"/"+e.Name)
			s += fmt.Sprintf("%q", data)
		}
	}
	n.w.note("%d disk:%s", n.id, s)
}
