// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"testing"
	"time"
)

func small() Options {
	o := DefaultOptions()
	o.Managers, o.Bindings, o.Degree, o.Limit = 40, 2000, 6, 2*time.Minute
	return o
}

func simulate(t *testing.T, o Options) *Result {
	t.Helper()
	o.Progress = t.Logf
	res, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", *res)
	if !res.Cold.Complete() {
		t.Errorf("cold start: %d of %d complete after %s", res.Cold.Reached, res.Cold.Of, o.Limit)
	}
	if u := res.WorstUpdate(); !u.Complete() || u.Max > 2*time.Second {
		t.Errorf("update: %d of %d after %s", u.Reached, u.Of, u.Max)
	}
	if res.HonestBanned != 0 {
		t.Errorf("%d honest managers are banned by honest ones", res.HonestBanned)
	}
	return res
}

func TestConvergence(t *testing.T) { simulate(t, small()) }

func TestConvergenceAmongHostile(t *testing.T) {
	o := small()
	o.Hostile = 0.2
	simulate(t, o)
}
