// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
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
	text = regexp.MustCompile(`(?m)^jetstream .*$`).ReplaceAllString(text, "")
	text = regexp.MustCompile(`_file: ([a-z]+\.(pem|key))`).ReplaceAllString(text, `_file: "`+ca.dir+`/$1"`)
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	opts.Host, opts.Port, opts.NoSigs, opts.NoLog, opts.JetStream, opts.StoreDir = "127.0.0.1", -1, true, true, true, t.TempDir()
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
		NewMember(as("gate1"), "gate1", g, slog.New(slog.DiscardHandler)).Run(member)
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
	conn, err := nats.Connect(as("gate1").Servers[0], as("gate1").options()...)
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
		kv, err := js.KeyValue(short, bucket)
		if err != nil {
			t.Fatal(err)
		}
		_, err = kv.PutString(short, key, "stolen")
		return err
	}
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
}
