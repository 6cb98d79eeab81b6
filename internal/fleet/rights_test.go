// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tidegate/internal/config"
)

// With the configuration of servers in docs/fleet.md, users are known by their certificates. The rights of a node suffice to follow and to report,
// and for nothing else; without a certificate of the authority nobody gets in.
func TestRightsOfTheDocument(t *testing.T) {
	doc, err := os.ReadFile("../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "# nats-server.conf\n")
	text, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/fleet.md has no nats-server.conf")
	}
	ca := newAuthority(t)
	ca.server()
	for _, user := range []string{"operator", "gate1", "nobody"} {
		ca.user(user)
	}
	text = regexp.MustCompile(`(?m)^jetstream .*$`).ReplaceAllString(text, fmt.Sprintf("listen: \"127.0.0.1:%d\"\njetstream { store_dir: %q }", freePorts(t, 1)[0], t.TempDir()))
	text = regexp.MustCompile(`_file: ([a-z]+\.(pem|key))`).ReplaceAllString(text, `_file: "`+ca.dir+`/$1"`)
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	opts.NoSigs, opts.NoLog = true, true
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	as := func(user string) Access {
		file := filepath.Join(ca.dir, user)
		return Access{Servers: []string{"tls" + s.ClientURL()[strings.Index(s.ClientURL(), ":"):]}, CA: filepath.Join(ca.dir, "ca.pem"), Cert: file + ".pem", Key: file + ".key"}
	}
	for what, a := range map[string]Access{"an unknown user": as("nobody"), "no certificate": {Servers: as("operator").Servers, CA: as("operator").CA}} {
		if o, err := Connect(a); err == nil {
			o.Close()
			t.Errorf("%s may connect", what)
		}
	}
	o, err := Connect(as("operator"))
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := o.Init(ctx, 1); err != nil {
		t.Fatal(err)
	}
	g := &memoryGate{}
	member, leave := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		NewMember(as("gate1"), "gate1", g, slog.New(slog.NewTextHandler(t.Output(), nil))).Run(member)
	}()
	defer func() { leave(); <-done }()
	n, err := o.Apply(ctx, Revision{Desired: mode(config.ModeAlways), By: "o"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Await(ctx, n, []string{"gate1"}, nil, nil); err != nil {
		t.Fatal(err)
	}

	// The same user, with a stolen key.
	conn, err := nats.Connect(as("gate1").Servers[0], append(as("gate1").options(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	try := func(bucket, key string) error {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := js.Publish(short, subjectOf(bucket, key), []byte("stolen"))
		return err
	}
	if err := try(NodesBucket, "gate1"); err != nil {
		t.Errorf("a node may not write its own report: %v", err)
	}
	for node, own := range map[string]bool{"gate1": true, "gate2": false} {
		if err := (&link{conn, node}).store(ctx, eventsPrefix+node, []byte("{}")); (err == nil) != own {
			t.Errorf("a node stores an event of %s: %v", node, err)
		}
	}
	shares(ctx, t, o, conn)
	if err := try(DesiredBucket, desiredKey); err == nil {
		t.Error("a node may write the desired state")
	}
	if err := try(NodesBucket, "gate2"); err == nil {
		t.Error("a node may report for another")
	}
	if now, err := o.Current(ctx); err != nil || now.Number != n || now.Error != "" {
		t.Errorf("the desired state is %+v, %v", now, err)
	}
	short, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	if err := js.DeleteKeyValue(short, DesiredBucket); err == nil {
		t.Error("a node may delete the bucket")
	}
	lever(ctx, t, o, conn, n)

	// Revoked as the document says. Who is connected is thrown out, and nobody with that certificate gets in any more; what the node has stays in force.
	before, after, found := strings.Cut(text, "  gate1: {")
	_, after, ends := strings.Cut(after, "\n  }\n")
	if !found || !ends {
		t.Fatal("docs/fleet.md has no account of gate1")
	}
	if err := os.WriteFile(path, []byte(before+after), 0o600); err != nil {
		t.Fatal(err)
	}
	has := g.Applied()
	if err := s.Reload(); err != nil {
		t.Fatalf("reload: %v", err)
	}
	await(t, "the stolen connection ends", func() bool { return !conn.IsConnected() })
	if again, err := nats.Connect(as("gate1").Servers[0], as("gate1").options()...); err == nil {
		again.Close()
		t.Error("a revoked certificate gets in")
	}
	if give(t, o, mode(config.ModeMonitor)) == has || g.Applied() != has {
		t.Errorf("the revoked node has revision %d, want %d", g.Applied(), has)
	}
}

// shares says what it sees as gate1 and as gate2, and hears what the servers repeat: only the former reaches others, and gate2's own word reaches gate1.
func shares(ctx context.Context, t *testing.T, o *Operator, conn *nats.Conn) {
	t.Helper()
	atNode, err := conn.SubscribeSync(attacksPrefix + "*")
	if err != nil {
		t.Fatal(err)
	}
	atOthers, err := o.conn.SubscribeSync(attacksPrefix + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*nats.Conn{conn, o.conn} {
		if err := c.FlushWithContext(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for node, own := range map[string]bool{"gate1": true, "gate2": false} {
		if err := (&link{conn, node}).store(ctx, attackPrefix+node, []byte("as "+node)); (err == nil) != own {
			t.Errorf("gate1 says what %s sees: %v", node, err)
		}
	}
	if err := conn.Publish(attacksPrefix+"gate2", []byte("forged")); err != nil {
		t.Fatal(err)
	}
	if err := conn.FlushWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := o.js.Publish(ctx, attackPrefix+"gate2", []byte("by gate2")); err != nil { // behind them
		t.Fatal(err)
	}
	heard := func(s *nats.Subscription) (list []string) {
		for {
			m, err := s.NextMsgWithContext(ctx)
			if err != nil {
				t.Fatalf("%v; heard %q", err, list)
			}
			list = append(list, m.Subject+": "+string(m.Data))
			if string(m.Data) == "by gate2" {
				return list
			}
		}
	}
	want := []string{"tidegate.attacks.gate1: as gate1", "tidegate.attacks.gate2: by gate2"}
	if got := heard(atOthers); !slices.Equal(got, want) {
		t.Errorf("others hear %q, want %q", got, want)
	}
	got := slices.DeleteFunc(heard(atNode), func(s string) bool { return strings.HasSuffix(s, "forged") }) // its own account hears that, which is its own
	if !slices.Equal(got, want) {
		t.Errorf("gate1 hears %q, want %q", got, want)
	}
}

// lever tries to have the servers write where a node may not: by the reply subjects of requests, the deliver subjects of consumers, and headers
// of its own report. It listens to everything meanwhile.
func lever(ctx context.Context, t *testing.T, o *Operator, conn *nats.Conn, n uint64) {
	t.Helper()
	nodes, err := o.js.KeyValue(ctx, NodesBucket)
	if err != nil {
		t.Fatal(err)
	}
	other, err := nodes.PutString(ctx, "gate2", `{"node":"gate2"}`)
	if err != nil {
		t.Fatal(err)
	}
	heard, err := conn.SubscribeSync("_INBOX.>")
	if err != nil {
		t.Fatal(err)
	}
	targets := []string{"$KV." + DesiredBucket + "." + desiredKey, "$KV." + NodesBucket + ".gate2", "$JS.API.STREAM.PURGE.KV_" + DesiredBucket, "$JS.API.STREAM.DELETE.KV_" + NodesBucket}
	send := func(subject, reply, body string, header nats.Header) {
		t.Helper()
		if err := conn.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Header: header, Data: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	for i, target := range targets {
		for _, bucket := range []string{DesiredBucket, NodesBucket} {
			api := "$JS.API."
			for _, request := range []string{"STREAM.INFO.KV_", "STREAM.NAMES.KV_", "STREAM.MSG.GET.KV_", "DIRECT.GET.KV_"} {
				for range history { // as many as push every revision out
					send(api+request+bucket, target, `{"last_by_subj":"$KV.`+bucket+`.>"}`, nil)
				}
			}
			name := fmt.Sprintf("c%d", i)
			send(api+"CONSUMER.CREATE.KV_"+bucket+"."+name, conn.NewRespInbox(), `{"stream_name":"KV_`+bucket+`","config":{"name":"`+name+`","deliver_subject":"`+target+`","deliver_policy":"all","ack_policy":"none"}}`, nil)
		}
		for range history {
			send("tidegate.newest", target, `{"last_by_subj":"$KV.`+DesiredBucket+`.>"}`, nil)
		}
		send("$KV."+NodesBucket+".gate1", target, "report", nil)
		send("$KV."+NodesBucket+".gate1", conn.NewRespInbox(), "report", nats.Header{"Nats-Trace-Dest": {target}})
	}
	send("$KV."+NodesBucket+".gate1", conn.NewRespInbox(), "report", nats.Header{"Nats-Rollup": {"all"}})
	if err := conn.FlushWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	last, err := nodes.Get(ctx, "gate2") // behind them in each queue of the server
	if err != nil || last.Revision() != other {
		t.Errorf("gate1 has changed the report of gate2: %v, %v", last, err)
	}
	all, err := o.History(ctx)
	if err != nil || len(all) != 1 || all[0].Number != n || all[0].Error != "" {
		t.Errorf("gate1 has changed the history of the desired state: %d revisions, %+v, %v", len(all), all, err)
	}
	if next, err := o.Apply(ctx, Revision{Desired: mode(config.ModeOff), By: "o"}, n); err != nil || next != n+1 {
		t.Errorf("the next revision is %d, %v, want %d", next, err, n+1)
	}
	for {
		m, err := heard.NextMsg(200 * time.Millisecond)
		if err != nil {
			break
		}
		if strings.Contains(string(m.Data), `"node":"gate2"`) || strings.Contains(string(m.Data), "o.operator") {
			t.Errorf("gate1 overhears what the servers answer to others: %.100s", m.Data)
			break
		}
	}
}
