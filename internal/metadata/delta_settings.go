package metadata

import (
	"cmp"
	"fmt"
	"slices"

	"moldau/internal/record"
)

// applySetting applies the records of the small tables.
func (d *Delta) applySetting(m record.Message) error {
	switch m := m.(type) {
	case *record.FeatureLevel:
		return d.replayFeature(m)
	case *record.Config:
		d.replayConfig(m)
	case *record.ClientQuota:
		d.replayQuota(m)
	case *record.ProducerIDs:
		return d.replayProducerIDs(m)
	case *record.UserScramCredential:
		d.next.scram.Set(scramKey(m.Mechanism, m.Name), m)
		d.security.SCRAM = true
	case *record.RemoveUserScramCredential:
		d.next.scram.Delete(scramKey(m.Mechanism, m.Name))
		d.security.SCRAM = true
	case *record.AccessControlEntry:
		d.next.acls.Set(string(m.ID[:]), m)
		d.security.ACLs = true
	case *record.RemoveAccessControlEntry:
		if _, ok := d.next.acls.Delete(string(m.ID[:])); !ok {
			return fmt.Errorf("there is no ACL %s", m.ID)
		}
		d.security.ACLs = true
	case *record.DelegationToken:
		d.next.tokens.Set(m.TokenID, m)
		d.security.DelegationTokens = true
	case *record.RemoveDelegationToken:
		d.next.tokens.Delete(m.TokenID)
		d.security.DelegationTokens = true
	case *record.NoOp:
	case *record.ZKMigrationState:
		// Of a cluster that once ran on ZooKeeper; without meaning since 4.0.
	default:
		return fmt.Errorf("it is not a metadata record")
	}
	return nil
}

func (d *Delta) replayFeature(m *record.FeatureLevel) error {
	switch {
	case m.Name == FeatureMetadataVersion:
		v := Version(m.FeatureLevel)
		if !v.Known() {
			return fmt.Errorf("metadata.version %d is not supported, only %d (%s) to %d (%s)",
				v, MinVersion, MinVersion, maxVersion, maxVersion)
		}
		d.next.version = v
	case m.Name == FeatureKRaftVersion:
		// Kept by the quorum in control records; Kafka skips it here too.
		return nil
	case m.FeatureLevel == 0:
		d.next.features.Delete(m.Name)
		if m.Name == FeatureELR && !mutantElrStays {
			// A snapshot cannot carry the eligible sets from now on. So they end
			// here, else a node that starts from a snapshot knows other ones than a
			// node that has followed the log, when the feature is on again.
			if err := d.clearAllELR(0); err != nil {
				return err
			}
		}
	default:
		d.next.features.Set(m.Name, m.FeatureLevel)
	}
	d.features[m.Name] = struct{}{}
	return nil
}

func (d *Delta) replayConfig(m *record.Config) {
	r := Resource{ResourceType(m.ResourceType), m.ResourceName}
	old, _ := d.next.configs.Get(r.key())
	c := &resourceConfig{resource: r}
	if old != nil {
		c.configs = slices.Clone(old.configs)
	}
	i, found := c.find(m.Name)
	switch {
	case m.Value == nil && found:
		c.configs = slices.Delete(c.configs, i, i+1)
	case m.Value == nil:
	case found:
		c.configs[i].Value = *m.Value
	default:
		c.configs = slices.Insert(c.configs, i, Config{m.Name, *m.Value})
	}
	if len(c.configs) == 0 {
		d.next.configs.Delete(r.key())
	} else {
		d.next.configs.Set(r.key(), c)
	}
	d.configs[r] = struct{}{}
}

func (d *Delta) removeConfigs(r Resource) {
	if _, ok := d.next.configs.Delete(r.key()); ok {
		d.configs[r] = struct{}{}
	}
}

func (d *Delta) replayQuota(m *record.ClientQuota) {
	key, entity := quotaEntity(m.Entity)
	q := &Quota{Entity: entity}
	if old, ok := d.next.quotas.Get(key); ok {
		q.Limits = slices.Clone(old.Limits)
	}
	i, found := slices.BinarySearchFunc(q.Limits, m.Key, func(l Limit, key string) int { return cmp.Compare(l.Key, key) })
	switch {
	case m.Remove && found:
		q.Limits = slices.Delete(q.Limits, i, i+1)
	case m.Remove:
	case found:
		q.Limits[i].Value = m.Value
	default:
		q.Limits = slices.Insert(q.Limits, i, Limit{m.Key, m.Value})
	}
	if len(q.Limits) == 0 {
		d.next.quotas.Delete(key)
	} else {
		d.next.quotas.Set(key, q)
	}
	d.security.Quotas = true
}

func (d *Delta) replayProducerIDs(m *record.ProducerIDs) error {
	if m.NextProducerID < d.next.producerID {
		return fmt.Errorf("next producer id %d is below %d", m.NextProducerID, d.next.producerID)
	}
	d.next.producerID = m.NextProducerID
	return nil
}
