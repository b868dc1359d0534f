package metadata

import (
	"fmt"

	"moldau/internal/kafka"
	"moldau/internal/record"
)

func (d *Delta) setBroker(b *Broker) {
	d.next.brokers.Set(b.ID, b)
	d.brokers[b.ID] = struct{}{}
}

// changeBroker changes the registration of exactly this epoch.
func (d *Delta) changeBroker(id kafka.NodeID, epoch kafka.BrokerEpoch, change func(*Broker)) error {
	old, err := d.registration(id, epoch)
	if err != nil {
		return err
	}
	b := *old
	change(&b)
	d.setBroker(&b)
	return nil
}

func (d *Delta) registration(id kafka.NodeID, epoch kafka.BrokerEpoch) (*Broker, error) {
	b, ok := d.next.brokers.Get(id)
	switch {
	case !ok:
		return nil, fmt.Errorf("broker %d is not registered", id)
	case b.Epoch != epoch:
		return nil, fmt.Errorf("broker %d is registered with epoch %d, the record has %d", id, b.Epoch, epoch)
	}
	return b, nil
}

func (d *Delta) replayUnregisterBroker(m *record.UnregisterBroker) error {
	if _, err := d.registration(m.BrokerID, m.BrokerEpoch); err != nil {
		return err
	}
	d.next.brokers.Delete(m.BrokerID)
	d.brokers[m.BrokerID] = struct{}{}
	return nil
}

func (d *Delta) replayBrokerChange(m *record.BrokerRegistrationChange) error {
	if m.Fenced < -1 || m.Fenced > 1 {
		return fmt.Errorf("broker %d: fenced is %d", m.BrokerID, m.Fenced)
	}
	if m.InControlledShutdown < 0 || m.InControlledShutdown > 1 {
		return fmt.Errorf("broker %d: in controlled shutdown is %d", m.BrokerID, m.InControlledShutdown)
	}
	return d.changeBroker(m.BrokerID, m.BrokerEpoch, func(b *Broker) {
		switch m.Fenced {
		case 1:
			b.Fenced = true
		case -1:
			b.Fenced = false
		}
		if m.InControlledShutdown == 1 {
			b.InControlledShutdown = true
		}
		if len(m.LogDirs) > 0 {
			b.Directories = sortedDirectories(m.LogDirs)
		}
		if m.CordonedLogDirs != nil {
			b.CordonedDirectories = sortedDirectories(m.CordonedLogDirs)
		}
	})
}

func (d *Delta) replayUnregisterController(m *record.UnregisterController) error {
	if _, ok := d.next.controllers.Delete(m.ControllerID); !ok {
		return fmt.Errorf("controller %d is not registered", m.ControllerID)
	}
	d.controllers[m.ControllerID] = struct{}{}
	return nil
}
