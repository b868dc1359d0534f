package metadata

import (
	"bytes"
	"cmp"
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/record"
)

// Feature is a range of levels that a node supports.
type Feature struct {
	Name     string
	Min, Max int16
}

// Broker is the registration of a broker. It must not be changed.
type Broker struct {
	ID                   kafka.NodeID
	Epoch                kafka.BrokerEpoch
	Incarnation          kafka.IncarnationID
	Endpoints            []kafka.Endpoint // by name
	Features             []Feature        // by name
	Rack                 string
	HasRack              bool
	Fenced               bool
	InControlledShutdown bool
	IsMigratingZKBroker  bool
	Directories          []kafka.DirectoryID // online, sorted
	CordonedDirectories  []kafka.DirectoryID // sorted; nil is unknown
}

// Active tells whether partitions may be led by the broker.
func (b *Broker) Active() bool { return !b.Fenced && !b.InControlledShutdown }

// AllCordoned tells whether the broker takes no new replicas, since all its
// directories are cordoned (KIP-1066).
func (b *Broker) AllCordoned() bool {
	for _, d := range b.Directories {
		if !slices.Contains(b.CordonedDirectories, d) {
			return false
		}
	}
	return len(b.Directories) > 0
}

// Endpoint finds a listener by name.
func (b *Broker) Endpoint(listener string) (kafka.Endpoint, bool) {
	for _, e := range b.Endpoints {
		if e.Name == listener {
			return e, true
		}
	}
	return kafka.Endpoint{}, false
}

// Feature finds the supported range of a feature.
func (b *Broker) Feature(name string) (Feature, bool) {
	for _, f := range b.Features {
		if f.Name == name {
			return f, true
		}
	}
	return Feature{}, false
}

// Online tells whether a replica in that directory can work: the directory is
// online or not known by id (Kafka's DirectoryId.isOnline).
func (b *Broker) Online(dir kafka.DirectoryID) bool {
	switch {
	case dir == kafka.DirectoryLost:
		return false
	case dir == kafka.DirectoryUnassigned || dir == kafka.DirectoryMigrating || len(b.Directories) == 0:
		return true
	}
	return slices.Contains(b.Directories, dir)
}

func sortedDirectories(dirs []kafka.DirectoryID) []kafka.DirectoryID {
	out := slices.Clone(dirs)
	slices.SortFunc(out, func(a, b kafka.DirectoryID) int { return bytes.Compare(a[:], b[:]) })
	return out
}

func brokerOf(m *record.RegisterBroker) *Broker {
	b := &Broker{
		ID: m.BrokerID, Epoch: m.BrokerEpoch, Incarnation: m.IncarnationID, Fenced: m.Fenced,
		InControlledShutdown: m.InControlledShutdown, IsMigratingZKBroker: m.IsMigratingZKBroker,
		Directories: sortedDirectories(m.LogDirs), CordonedDirectories: sortedDirectories(m.CordonedLogDirs),
	}
	if m.Rack != nil {
		b.Rack, b.HasRack = *m.Rack, true
	}
	for _, e := range m.EndPoints {
		b.Endpoints = append(b.Endpoints, kafka.Endpoint{Name: e.Name, Host: e.Host, Port: e.Port, Protocol: e.SecurityProtocol})
	}
	for _, f := range m.Features {
		b.Features = append(b.Features, Feature{f.Name, f.MinSupportedVersion, f.MaxSupportedVersion})
	}
	slices.SortStableFunc(b.Endpoints, func(a, b kafka.Endpoint) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortStableFunc(b.Features, func(a, b Feature) int { return cmp.Compare(a.Name, b.Name) })
	return b
}

// toRecord is the inverse of brokerOf at level v.
func (b *Broker) toRecord(v Version) *record.RegisterBroker {
	m := record.NewRegisterBroker()
	m.BrokerID, m.BrokerEpoch, m.IncarnationID = b.ID, b.Epoch, b.Incarnation
	m.Fenced, m.InControlledShutdown, m.IsMigratingZKBroker = b.Fenced, b.InControlledShutdown, b.IsMigratingZKBroker
	if b.HasRack {
		rack := b.Rack
		m.Rack = &rack
	}
	for _, e := range b.Endpoints {
		m.EndPoints = append(m.EndPoints, record.BrokerEndpoint{Name: e.Name, Host: e.Host, Port: e.Port, SecurityProtocol: e.Protocol})
	}
	for _, f := range b.Features {
		m.Features = append(m.Features, record.BrokerFeature{Name: f.Name, MinSupportedVersion: f.Min, MaxSupportedVersion: f.Max})
	}
	if v.CanAssignDirectories() {
		m.LogDirs = b.Directories
	}
	if v.CanCordonDirectories() {
		m.CordonedLogDirs = b.CordonedDirectories
	}
	return m
}
