package metadata

import (
	"crypto/sha256"
	"fmt"

	"moldau/internal/kafka"
	"moldau/internal/record"
)

// Emit takes the records of a snapshot one by one.
type Emit func(m record.Message, version int16) error

// WriteSnapshot gives all records that rebuild the image, in Kafka's order:
// features with metadata.version first, brokers, controllers, topics, configs,
// quotas, producer ids, ACLs, SCRAM, delegation tokens. Record versions follow
// the image's metadata.version. It stops at the first error of emit, and gives
// ErrUnwritable where Kafka refuses, too: state that the level cannot carry.
// Control records around the snapshot are the writer's.
func (img *Image) WriteSnapshot(emit Emit) error {
	switch {
	case img.inTransaction:
		return fmt.Errorf("%w: offset %d is inside a transaction", ErrUnwritable, img.provenance.EndOffset)
	case img.version == 0:
		return fmt.Errorf("%w: there is no metadata.version", ErrUnwritable)
	}
	return img.write(img.version, img.CanUseELR(), emit)
}

// Hash identifies the state, apart from its provenance: equal state gives
// equal hashes, on every node and however it came about. The order within an
// ISR does not count.
func (img *Image) Hash() [32]byte {
	h := sha256.New()
	var buf []byte
	emit := func(m record.Message, version int16) error {
		buf = record.AppendMetadata(buf[:0], m, version)
		h.Write(buf)
		return nil
	}
	if img.version != 0 || img.features.Len() > 0 {
		fmt.Fprintf(h, "metadata.version %d\n", img.version)
	}
	if err := img.write(maxVersion, true, emit); err != nil {
		panic(fmt.Sprintf("metadata: hash: %v", err)) // the highest level carries everything
	}
	if img.inTransaction {
		h.Write([]byte("transaction"))
		for _, m := range img.pending {
			_, hi := m.Versions()
			_ = emit(m, hi)
		}
	}
	return [32]byte(h.Sum(nil))
}

func (img *Image) write(v Version, elr bool, emit Emit) error {
	for _, part := range []func(Version, Emit) error{
		img.writeFeatures, img.writeBrokers, img.writeControllers,
		func(v Version, emit Emit) error { return img.writeTopics(v, elr, emit) },
		img.writeConfigs, img.writeQuotas, img.writeSecurity,
	} {
		if err := part(v, emit); err != nil {
			return err
		}
	}
	return nil
}

func (img *Image) writeFeatures(_ Version, emit Emit) (err error) {
	img.EachFeature(func(name string, level int16) {
		if err == nil {
			err = emit(&record.FeatureLevel{Name: name, FeatureLevel: level}, 0)
		}
	})
	return err
}

func (img *Image) writeBrokers(v Version, emit Emit) (err error) {
	img.EachBroker(func(b *Broker) bool {
		if len(b.Directories) > 0 && !v.CanAssignDirectories() || len(b.CordonedDirectories) > 0 && !v.CanCordonDirectories() {
			err = fmt.Errorf("%w: directories of broker %d at %s", ErrUnwritable, b.ID, v)
			return false
		}
		if b.IsMigratingZKBroker && v < versionMigration {
			err = fmt.Errorf("%w: migration of broker %d at %s", ErrUnwritable, b.ID, v)
			return false
		}
		m := b.toRecord(v)
		err = emit(m, v.RecordVersion(m))
		return err == nil
	})
	return err
}

func (img *Image) writeControllers(v Version, emit Emit) (err error) {
	img.EachController(func(c *record.RegisterController) bool {
		if !v.CanRegisterControllers() {
			err = fmt.Errorf("%w: controller %d at %s", ErrUnwritable, c.ControllerID, v)
			return false
		}
		err = emit(c, 0)
		return err == nil
	})
	return err
}

func (img *Image) writeTopics(v Version, elr bool, emit Emit) (err error) {
	img.EachTopic(func(t Topic) bool {
		if err = emit(&record.Topic{Name: t.Name(), TopicID: t.ID()}, 0); err != nil {
			return false
		}
		t.Each(func(p Partition) bool {
			var m *record.Partition
			if m, err = p.toRecord(t.ID(), v, elr); err == nil {
				err = emit(m, v.partitionVersion())
			}
			return err == nil
		})
		return err == nil
	})
	return err
}

func (img *Image) writeConfigs(_ Version, emit Emit) (err error) {
	img.EachConfigured(func(r Resource, configs []Config) bool {
		for i := range configs {
			m := &record.Config{ResourceType: int8(r.Type), ResourceName: r.Name, Name: configs[i].Name, Value: &configs[i].Value}
			if err = emit(m, 0); err != nil {
				return false
			}
		}
		return true
	})
	return err
}

func (img *Image) writeQuotas(_ Version, emit Emit) (err error) {
	img.EachQuota(func(q *Quota) bool {
		for _, l := range q.Limits {
			if err = emit(&record.ClientQuota{Entity: q.Entity, Key: l.Key, Value: l.Value}, 0); err != nil {
				return false
			}
		}
		return true
	})
	if err == nil && img.producerID >= 0 {
		m := record.NewProducerIDs()
		m.BrokerID, m.BrokerEpoch, m.NextProducerID = kafka.NoNode, kafka.NoBrokerEpoch, img.producerID
		err = emit(m, 0)
	}
	return err
}

func (img *Image) writeSecurity(v Version, emit Emit) (err error) {
	img.EachACL(func(m *record.AccessControlEntry) bool {
		err = emit(m, 0)
		return err == nil
	})
	if err != nil {
		return err
	}
	if img.scram.Len() > 0 && !v.CanUseSCRAM() {
		return fmt.Errorf("%w: SCRAM credentials at %s", ErrUnwritable, v)
	}
	img.EachSCRAM(func(m *record.UserScramCredential) bool {
		err = emit(m, 0)
		return err == nil
	})
	if err != nil {
		return err
	}
	if img.tokens.Len() > 0 && !v.CanUseDelegationTokens() {
		return fmt.Errorf("%w: delegation tokens at %s", ErrUnwritable, v)
	}
	img.EachDelegationToken(func(m *record.DelegationToken) bool {
		err = emit(m, 0)
		return err == nil
	})
	return err
}
