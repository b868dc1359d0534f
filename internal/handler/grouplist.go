package handler

// Groups for administrators: DescribeGroups (v3: authorized operations; v6:
// groups that do not exist), ListGroups (v4: states; v5: types), DeleteGroups.

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/group"
	"moldau/internal/kafka"
)

// groupOperations are the operations of groups; see topicOperations.
const groupOperations = 0xd48

// byPartition sorts group ids by the partition that keeps them, each id once.
func (h *Handler) byPartition(ids []string) map[kafka.PartitionID][]string {
	out := map[kafka.PartitionID][]string{}
	seen := map[string]bool{}
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			n := h.opts.Groups.Partition(id)
			out[n] = append(out[n], id)
		}
	}
	return out
}

func (h *Handler) describeGroups(c *call) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	if !c.decode(req) {
		return
	}
	if err := checkDescribed(req.Groups); err != nil {
		c.Drop(err)
		return
	}
	withOps := c.Version >= 3 && req.IncludeAuthorizedOperations
	var mu sync.Mutex
	described := map[string]kmsg.DescribeGroupsResponseGroup{}
	q := h.inquire(c, func() kmsg.Response {
		resp := kmsg.NewPtrDescribeGroupsResponse()
		for _, id := range req.Groups { // in the order, and as often, as asked
			d := described[id]
			if withOps && d.ErrorCode == 0 {
				d.AuthorizedOperations = groupOperations
			}
			resp.Groups = append(resp.Groups, d)
		}
		return resp
	})
	for n, ids := range h.byPartition(req.Groups) {
		q.put(h.opts.Groups.Machine(n), &group.Describe{IDs: ids, Version: c.Version}, func(body any, code kafka.ErrorCode) {
			mu.Lock()
			defer mu.Unlock()
			if code != 0 {
				for _, id := range ids {
					d := kmsg.NewDescribeGroupsResponseGroup()
					d.Group, d.ErrorCode = id, int16(refusalCode(code))
					described[id] = d
				}
				return
			}
			for _, d := range body.([]kmsg.DescribeGroupsResponseGroup) {
				described[d.Group] = d
			}
		})
	}
	q.done()
}

// listGroups lists the groups of all coordinators here. While one is loaded the
// answer would not be complete: the client comes back (HC-161).
func (h *Handler) listGroups(c *call) {
	req := kmsg.NewPtrListGroupsRequest()
	if !c.decode(req) {
		return
	}
	var mu sync.Mutex
	resp := kmsg.NewPtrListGroupsResponse()
	q := h.inquire(c, func() kmsg.Response { return resp })
	for _, m := range h.opts.Groups.Machines() {
		q.put(m, &group.List{States: req.StatesFilter, Types: req.TypesFilter}, func(body any, code kafka.ErrorCode) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case code == kafka.ErrNotCoordinator: // any more: another broker lists them
			case code != 0:
				resp.ErrorCode, resp.Groups = int16(refusalCode(code)), nil
			case resp.ErrorCode == 0:
				resp.Groups = append(resp.Groups, body.([]kmsg.ListGroupsResponseGroup)...)
			}
		})
	}
	q.done()
}

func (h *Handler) deleteGroups(c *call) {
	req := kmsg.NewPtrDeleteGroupsRequest()
	if !c.decode(req) {
		return
	}
	var mu sync.Mutex
	resp := kmsg.NewPtrDeleteGroupsResponse()
	q := h.inquire(c, func() kmsg.Response { return resp })
	for n, ids := range h.byPartition(req.Groups) {
		q.put(h.opts.Groups.Machine(n), &group.Delete{IDs: ids}, func(body any, code kafka.ErrorCode) {
			mu.Lock()
			defer mu.Unlock()
			if code == 0 {
				resp.Groups = append(resp.Groups, body.([]kmsg.DeleteGroupsResponseGroup)...)
				return
			}
			for _, id := range ids {
				d := kmsg.NewDeleteGroupsResponseGroup()
				d.Group, d.ErrorCode = id, int16(refusalCode(code))
				resp.Groups = append(resp.Groups, d)
			}
		})
	}
	q.done()
}
