package config

import (
	"strings"
	"testing"
)

const (
	plainAt      = "listeners=PLAINTEXT://127.0.0.1:1092,HIDDEN://127.0.0.1:1094,CONTROLLER://127.0.0.1:1093"
	protocolsAre = "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT,HIDDEN:PLAINTEXT,SEC:SSL"
	onlyPlain    = "advertised.listeners=PLAINTEXT://127.0.0.1:1092"
)

// What Apache Kafka 4.4 says to changes of listeners of a combined node: accepted
// or not. L stands for the listener that is advertised and the controllers', M for
// the protocols of all that exist. Each line fails without its check.
func TestListenersAreCheckedAsKafkaDoes(t *testing.T) {
	static := settings("process.roles=broker,controller;controller.listener.names=CONTROLLER;" + plainAt + ";" + protocolsAre + ";" + onlyPlain)
	short := strings.NewReplacer("L,", "listeners=PLAINTEXT://127.0.0.1:1092,CONTROLLER://127.0.0.1:1093,",
		"M,", "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,HIDDEN:PLAINTEXT,")
	for _, q := range []struct{ now, set, says string }{
		{"", "L,HIDDEN://127.0.0.1:1094,EXTRA://127.0.0.1:1095", ""},
		{"", "L,EXTRA://127.0.0.1:1095", ""}, // HIDDEN is not advertised
		{"", "listeners=PLAINTEXT://127.0.0.1:1092,EXTRA://127.0.0.1:1095", "none of controller.listener.names"},
		{"", "listeners=HIDDEN://127.0.0.1:1092,CONTROLLER://127.0.0.1:1093", "advertised.listeners has PLAINTEXT"},
		{"", "listeners=CONTROLLER://127.0.0.1:1093", "only controller listeners"},
		{"", "L,NOMAP://127.0.0.1:1095", "no security protocol defined for listener NOMAP"},
		{"", "L,EXTRA://127.0.0.1:1092", "PLAINTEXT and EXTRA have 1092"},
		{"", "L,EXTRA://127.0.0.2:1092", "different port"},
		{"", "L,EXTRA://localhost:1092", "different port"},
		{"", "L,EXTRA://:1092", "different port"},
		{"", "L,EXTRA://[::1]:1092", ""},
		{"", "L,EXTRA://0.0.0.0:1095", ""}, // nobody is told of it
		{"", "L,EXTRA://:0,HIDDEN://:0", ""},
		{"", "L,PLAINTEXT://127.0.0.1:1095", "PLAINTEXT is there twice"},
		{"", "L,plaintext://127.0.0.1:1095", "PLAINTEXT is there twice"},
		{"", "L,extra://127.0.0.1:1095", ""},
		{"", "L,EXTRA", "not of the form"},
		{"", "L,EXTRA://127.0.0.1", "not of the form"},
		{"", "L,EXTRA://127.0.0.1:x", "not of the form"},
		{"", "L,EXTRA://127.0.0.1:99999999999", "not of the form"},
		{"", "L,EXTRA://ba_d!host:1095", "not of the form"},
		{"", "L,EXTRA://no.such.host.invalid:1095", ""},
		{"", "L,EXTRA://::1:1095", ""},
		{"", "L,://127.0.0.1:1095", "not of the form"},
		{"", "L,", "not of the form"},
		{"", "listeners=", "none of controller.listener.names"},
		{"", "listeners=PLAINTEXT://127.0.0.1:1099,HIDDEN://127.0.0.1:1094,CONTROLLER://127.0.0.1:1098", ""}, // for the next start
		{"", protocolsAre + "x", "not of the form"},
		{"", "M,EXTRA:SSL", ""},
		{"", "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,HIDDEN:SSL", "HIDDEN uses SSL"},
		{"", "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT", "no security protocol defined for listener HIDDEN"},
		{"", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,HIDDEN:PLAINTEXT", "no security protocol defined for listener CONTROLLER"},
		{"", "listener.security.protocol.map=", "no security protocol defined for listener PLAINTEXT"},
		{"", "listener.security.protocol.map=controller:plaintext,plaintext:plaintext,hidden:plaintext", ""},
		{"", "M,NEW", "not of the form"},
		{"", "M,NEW:NOPE", "not of the form"},
		{"", "M,HIDDEN:PLAINTEXT", ""},
		{"", "M,hidden:PLAINTEXT", "HIDDEN and hidden are the same listener"},
		{"", "M,", ""},
		{"", "M,NEW:PLAINTEXT;L,NEW://127.0.0.1:1095", ""},
		// Settings of a listener that exists, if listeners are looked at.
		{"", "listener.name.hidden.foo.bar=x", ""},
		{"", "listener.name.hidden.foo.bar=x;L,HIDDEN://127.0.0.1:1094,EXTRA://127.0.0.1:1095", "listener.name.hidden.foo.bar cannot be changed together"},
		{"", "listener.name.controller.foo.bar=x;L,EXTRA://127.0.0.1:1095", "listener.name.controller.foo.bar cannot"},
		{"", "listener.name.hidden.ssl.client.auth=required;L,HIDDEN://:1094,EXTRA://:1095", "listener.name.hidden.ssl.client.auth cannot"},
		{"", "listener.name.hidden.ssl.keystore.location=x;L,HIDDEN://:1094,EXTRA://:1095", ""},
		{"", "listener.name.hidden.num.network.threads=4;L,HIDDEN://:1094,EXTRA://:1095", ""},
		{"", "listener.name.hidden.max.connections=4;L,HIDDEN://:1094,EXTRA://:1095", ""},
		{"", "listener.name.HIDDEN.foo.bar=x;L,HIDDEN://:1094,EXTRA://:1095", ""},
		{"", "listener.name.extra.foo.bar=x;L,HIDDEN://:1094,EXTRA://:1095", ""},
		{"", "listener.name.hidden.foo.bar=x;L,EXTRA://:1095", ""}, // it goes
		{"", "listener.name.hidden.foo.bar=x;max.connections=500", "cannot be changed together"},
		{"", "listener.name.hidden.foo.bar=x;max.connections.per.ip=500", ""},
		{"", "listener.name.hidden.foo.bar=x;log.retention.ms=5000000", ""},
		{"listener.name.hidden.foo.bar=x", "max.connections=500", "cannot be changed together"}, // taken away
		{"listener.name.hidden.foo.bar=x", "listener.name.hidden.foo.bar=x;max.connections=500", ""},
		// After earlier changes.
		{"L,EXTRA://127.0.0.1:1095", "", ""},
		{"L,EXTRA://127.0.0.1:1095", "L,HIDDEN://127.0.0.1:1094", ""},
		{"L,EXTRA://127.0.0.1:1095", "L,EXTRA://127.0.0.1:1095;listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT", ""},
		// Not Kafka's: it takes the listener and then cannot open it.
		{"", "L,SEC://127.0.0.1:1095", "SEC uses SSL, which this version does not offer yet"},
		{"", "L,EXTRA://127.0.0.1:-1", "not of the form"},
		{"", "L,EXTRA://127.0.0.1:65536", "not of the form"},
	} {
		now, set := settings(short.Replace(q.now)), settings(short.Replace(q.set))
		got := errorText(CheckBroker(Layers{Broker: FromMap(now), Static: FromMap(static)}, now, set, false))
		if (got == "") != (q.says == "") || !strings.Contains(got, q.says) {
			t.Errorf("%s, then %s: %q, want %q", q.now, q.set, got, q.says)
		}
	}
}

// Without advertised.listeners every listener is advertised, those that were added
// too, and none can be removed. Fails if checkListeners does not ask Advertises of
// what was before.
func TestAdvertisedListenersStay(t *testing.T) {
	static := settings("process.roles=broker,controller;controller.listener.names=CONTROLLER;" + plainAt + ";" + protocolsAre)
	added := settings(plainAt + ",EXTRA://127.0.0.1:1095")
	for _, q := range []struct {
		now       map[string]string
		set, says string
	}{
		{nil, "listeners=PLAINTEXT://127.0.0.1:1092,CONTROLLER://127.0.0.1:1093", "HIDDEN is advertised and must stay"},
		{nil, plainAt + ",EXTRA://127.0.0.1:1095", ""},
		{nil, plainAt + ",EXTRA://0.0.0.0:1095", "cannot use 0.0.0.0"},
		{added, "", "EXTRA is advertised and must stay"},
		{added, plainAt, "EXTRA is advertised and must stay"},
		{added, "log.retention.ms=5;" + plainAt + ",EXTRA://127.0.0.1:1095", ""},
		// What is stored does not go together with the properties: they count.
		{settings("listeners=OTHER://h:1"), "", ""},
		{settings("listeners=OTHER://h:1"), "log.retention.ms=5;listeners=OTHER://h:1", "OTHER"},
	} {
		got := errorText(CheckBroker(Layers{Broker: FromMap(q.now), Static: FromMap(static)}, q.now, settings(q.set), false))
		if (got == "") != (q.says == "") || !strings.Contains(got, q.says) {
			t.Errorf("%v, then %s: %q, want %q", q.now, q.set, got, q.says)
		}
	}
}

// Roles bound what can be changed; what is in force is what goes together with the
// properties. Fails if InForce takes the dynamic settings of a controller, or
// broken ones.
func TestListenersInForce(t *testing.T) {
	broker := settings("process.roles=broker;controller.listener.names=CONTROLLER;listeners=PLAINTEXT://h:1")
	controller := settings("process.roles=controller;controller.listener.names=CONTROLLER;listeners=CONTROLLER://h:1")
	for _, q := range []struct {
		static           map[string]string
		dynamic, opens   string
		checked, inForce string // what CheckBroker and InForce say
	}{
		{broker, "listeners=PLAINTEXT://h:1,SASL_SSL://h:2", "PLAINTEXT://h:1", "does not offer", "does not offer"},
		{broker, "listeners=PLAINTEXT://h:1,CONTROLLER://h:2", "PLAINTEXT://h:1", "process.roles has no controller", "process.roles has no controller"},
		{broker, "listeners=PLAINTEXT://h:2", "PLAINTEXT://h:2", "", ""},
		{controller, "listeners=CONTROLLER://h:1,PLAINTEXT://h:2", "CONTROLLER://h:1", "is controller only", ""},
	} {
		l := Layers{Static: FromMap(q.static)}
		if got := errorText(CheckBroker(l, nil, settings(q.dynamic), false)); (got == "") != (q.checked == "") || !strings.Contains(got, q.checked) {
			t.Errorf("%s is checked: %q, want %q", q.dynamic, got, q.checked)
		}
		l.Broker = FromMap(settings(q.dynamic))
		now, err := InForce(l)
		opens := ""
		for _, o := range now.Listeners {
			opens = strings.TrimPrefix(opens+","+o.String(), ",")
		}
		if got := errorText(err); opens != q.opens || (got == "") != (q.inForce == "") || !strings.Contains(got, q.inForce) {
			t.Errorf("%s: in force is %s, %q", q.dynamic, opens, got)
		}
	}
}

// A controller on all addresses is told of by the host's name, and what is not
// advertised may be anywhere, as in Kafka. Fails if advertise looks at hidden
// listeners, or keeps 0.0.0.0.
func TestListenersOnAllAddresses(t *testing.T) {
	l, err := NewListening(Layers{Static: FromMap(settings("process.roles=broker,controller;controller.listener.names=CONTROLLER;" + protocolsAre + ";" + onlyPlain +
		";listeners=PLAINTEXT://0.0.0.0:1,HIDDEN://0.0.0.0:2,CONTROLLER://0.0.0.0:3"))})
	if err != nil || l.Advertised[2].Host != "" || l.Listeners[2].Host != "0.0.0.0" {
		t.Errorf("%v %+v", err, l)
	}
}
