package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// The bodies of coordinator.Request that a Coordinator understands, with the
// bodies of their replies:
//
//	*kmsg.JoinGroupRequest    *kmsg.JoinGroupResponse
//	*kmsg.SyncGroupRequest    *kmsg.SyncGroupResponse
//	*kmsg.HeartbeatRequest    *kmsg.HeartbeatResponse
//	*kmsg.LeaveGroupRequest   *kmsg.LeaveGroupResponse
//	*kmsg.OffsetCommitRequest *kmsg.OffsetCommitResponse
//	*kmsg.OffsetDeleteRequest *kmsg.OffsetDeleteResponse
//	*FetchOffsets             *kmsg.OffsetFetchResponseGroup
//	*Describe                 []kmsg.DescribeGroupsResponseGroup
//	*List                     []kmsg.ListGroupsResponseGroup
//	*Delete                   []kmsg.DeleteGroupsResponseGroup
//
// Requests have their version set. A request names a group of this
// coordinator's partition and has passed the checks that need the metadata:
// topics of commits exist and have their names. Nothing in a body is kept
// beyond the call without being copied.

// FetchOffsets asks for the offsets of one group (OffsetFetch). Topics are
// found by name; a topic id of zero matches every id.
type FetchOffsets struct {
	Group         kmsg.OffsetFetchRequestGroup // Topics nil: all
	RequireStable bool
}

// Describe asks about groups (DescribeGroups).
type Describe struct {
	IDs     []string
	Version int16 // of the request; v6 tells groups that do not exist apart
}

// List asks for the groups (ListGroups). An empty filter lets all pass.
type List struct {
	States []string
	Types  []string
}

// Delete asks for groups to be deleted (DeleteGroups).
type Delete struct{ IDs []string }

// PartitionsDeleted is the event of partitions that are gone: their committed
// offsets go too.
type PartitionsDeleted struct{ Partitions []kafka.TopicPartition }
