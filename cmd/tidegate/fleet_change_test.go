// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tidegate/internal/fleet"
	"tidegate/internal/keys"
)

// One command changes one entry of the fleet's lists, and leaves the rest of the desired state as it is.
func TestFleetLists(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	access, o := newFleet(ctx, t)
	must := func(want string, args ...string) fleet.Desired {
		t.Helper()
		out, err := fleetRun(access, args...)
		if (err == nil) != (want == "") || !strings.Contains(out, want) {
			t.Fatalf("%v: %v: %s, want %q", args, err, out, want)
		}
		now, err := o.Current(ctx)
		if err != nil || now.Error != "" {
			t.Fatalf("%v: %+v, %v", args, now, err)
		}
		return now.Desired
	}
	must("", "deny", "203.0.113.0/24", "--until", "2047-01-31T12:00:00Z", "--comment", "ticket 4711")
	d := must("", "deny", "2001:db8::7")
	if want := []string{"203.0.113.0/24 until 2047-01-31T12:00:00Z # ticket 4711", "2001:db8::7/128"}; !slices.Equal(d.Deny, want) {
		t.Errorf("denied: %q, want %q", d.Deny, want)
	}
	began := time.Now()
	d = must("", "allow", "203.0.113.0/24", "--for", "1h")
	until, err := time.Parse(time.RFC3339, strings.TrimPrefix(d.Allow[0], "203.0.113.0/24 until "))
	if err != nil || until.Sub(began) < 59*time.Minute || until.Sub(began) > 61*time.Minute || len(d.Allow) != 1 || !slices.Equal(d.Deny, []string{"2001:db8::7/128"}) {
		t.Errorf("allowed %q, denied %q, %v", d.Allow, d.Deny, err)
	}
	d = must("", "remove", "203.0.113.0/24")
	if len(d.Allow) != 0 || len(d.Deny) != 1 {
		t.Errorf("allowed %q, denied %q", d.Allow, d.Deny)
	}
	must("is in neither list", "remove", "203.0.113.0/24")
	must("want an address or a prefix", "deny", "everybody")
	must("more than one line", "deny", "192.0.2.0/24", "--comment", "a\n0.0.0.0/0")

	// Not while a roll-out is unfinished, nor onto garbage.
	now, err := o.Current(ctx)
	if err == nil {
		_, err = o.Apply(ctx, fleet.Revision{Desired: now.Desired, Only: []string{"gate1"}}, now.Number)
	}
	if err != nil {
		t.Fatal(err)
	}
	must("end it first", "deny", "192.0.2.0/24")
}

// The announcement of a roll has the key id and the time, never the secret.
func TestRollSecretPublishesNoSecret(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	access, o := newFleet(ctx, t)
	conn, err := nats.Connect(access.Servers[0])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	heard := make(chan *nats.Msg, 4096)
	if _, err := conn.ChanSubscribe(">", heard); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "next")
	if out, err := rootRun("keygen", path); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := keys.LoadSecret(path)
	if err != nil {
		t.Fatal(err)
	}
	id := secret.Fingerprint()
	if out, err := fleetRun(access, "roll-secret", "--secret-file", path, "--from", "2047-01-31T12:00:00Z"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	now, err := o.Current(ctx)
	if err != nil || now.Desired.Secret.String() != id+" from 2047-01-31T12:00:00Z" {
		t.Errorf("announced: %v, %v", now.Desired.Secret, err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	announced := false
	for len(heard) > 0 {
		m := <-heard
		announced = announced || bytes.Contains(m.Data, []byte(id))
		for _, form := range [][]byte{secret[:], bytes.TrimSpace(file), []byte(hex.EncodeToString(secret[:])), []byte(base64.StdEncoding.EncodeToString(secret[:]))} {
			if bytes.Contains(m.Data, form) {
				t.Errorf("the secret was published to %s", m.Subject)
			}
		}
	}
	if !announced {
		t.Error("nothing was heard of the announcement")
	}
	if out, err := fleetRun(access, "roll-secret", "--key-id", hex.EncodeToString(secret[:]), "--from", "2047-01-31T12:00:00Z"); err == nil || !strings.Contains(out, "never the secret itself") {
		t.Errorf("the secret as a key id: %v: %s", err, out)
	}
}
