package kafka

import (
	"encoding/base64"
	"errors"
	"fmt"
)

// UUID is Kafka's 128-bit id, printed as 22 characters of URL-safe base64.
type UUID [16]byte

// TopicID identifies one life of a topic. Zero means unknown.
type TopicID UUID

// DirectoryID identifies a log directory (or, in a voter set, the disk of a
// voter). Small values are reserved; see the constants.
type DirectoryID UUID

// IncarnationID identifies one run of a broker or controller process.
type IncarnationID UUID

// ClusterMetadataTopicID is the fixed id of __cluster_metadata (Uuid.ONE_UUID).
var ClusterMetadataTopicID = TopicID{15: 1}

// Reserved directory ids (org.apache.kafka.common.DirectoryId).
var (
	DirectoryUnassigned = DirectoryID{}
	DirectoryLost       = DirectoryID{15: 1}
	DirectoryMigrating  = DirectoryID{15: 2}
)

// ErrUUID says that a text is not a Kafka UUID.
var ErrUUID = errors.New("not a 22-character base64 uuid")

// String gives the id as URL-safe base64 without padding.
func (u UUID) String() string { return base64.RawURLEncoding.EncodeToString(u[:]) }

// String gives the id as URL-safe base64 without padding.
func (u TopicID) String() string { return UUID(u).String() }

// String gives the id as URL-safe base64 without padding.
func (u DirectoryID) String() string { return UUID(u).String() }

// String gives the id as URL-safe base64 without padding.
func (u IncarnationID) String() string { return UUID(u).String() }

// IsZero tells whether the id is unknown.
func (u TopicID) IsZero() bool { return u == TopicID{} }

// Reserved tells whether the id is one of the first hundred, which Kafka keeps
// for special meanings and never hands out.
func (u UUID) Reserved() bool {
	for _, b := range u[:15] {
		if b != 0 {
			return false
		}
	}
	return u[15] < 100
}

// ParseUUID reads the base64 form. It accepts padding, as Kafka does.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	for len(s) > 0 && s[len(s)-1] == '=' {
		s = s[:len(s)-1]
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != len(u) {
		return u, fmt.Errorf("%q: %w", s, ErrUUID)
	}
	copy(u[:], b)
	return u, nil
}

// NewUUID makes a version-4 UUID of 16 random bytes. It reports false if the
// bytes give an id that Kafka would not hand out: a reserved one, or one whose
// text begins with '-' (Uuid.randomUuid); draw again then.
func NewUUID(random [16]byte) (UUID, bool) {
	u := UUID(random)
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return u, !u.Reserved() && u.String()[0] != '-'
}
