// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/fleet"
)

// rollout is how a revision reaches the nodes.
type rollout struct {
	canary  []string
	hold    time.Duration
	timeout time.Duration
}

func (r *rollout) flags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&r.canary, "canary", nil, "`NODES` that get it first, separated by commas; if one refuses it or is degraded, the rest does not get it and they go back")
	cmd.Flags().DurationVar(&r.hold, "hold", 30*time.Second, "watch the canaries for this `DURATION`")
	cmd.Flags().DurationVar(&r.timeout, "timeout", 30*time.Second, "wait for the nodes for this `DURATION`")
}

// check refuses what cannot be watched.
func (r *rollout) check() error {
	if r.hold < fleet.ReportEvery {
		return cli.UsageErrorf("--hold %v: a node reports every %v, so a canary that fails would not be seen; use at least that", r.hold, fleet.ReportEvery)
	}
	return nil
}

// run brings a state into force, after the revision that the operator has seen.
func (r *rollout) run(ctx context.Context, o *fleet.Operator, next fleet.Revision, seen fleet.Revision, out, progress io.Writer) error {
	asking, cancel := context.WithTimeout(ctx, fleetServerTime)
	defer cancel()
	nodes, err := o.Nodes(asking)
	if err != nil {
		return err
	}
	next.By = operatorName()
	if len(r.canary) == 0 {
		return r.all(ctx, o, next, seen.Number, nodes, out, progress)
	}
	history, err := o.History(asking)
	if err != nil {
		return err
	}
	inForce, err := fleet.LastForAll(history, seen.Number)
	if err != nil {
		return fmt.Errorf("%w, so failed canaries would have nothing to return to; apply without --canary", err)
	}
	first := next
	first.Only, first.Before = r.canary, map[string]int{}
	if inForce.Number != 0 {
		first.Rest = &fleet.Rest{Revision: inForce.Number, Desired: inForce.Desired}
	}
	for _, n := range nodes {
		if slices.Contains(r.canary, n.Report.Node) {
			first.Before[n.Report.Node] = len(n.Degraded)
		}
	}
	if first.Number, err = o.Apply(asking, first, seen.Number); err != nil {
		return err
	}
	return r.complete(ctx, o, first, next, inForce, nodes, out, progress)
}

// resume goes on with a roll-out that has reached only its canaries.
func (r *rollout) resume(ctx context.Context, o *fleet.Operator, first fleet.Revision, out, progress io.Writer) error {
	asking, cancel := context.WithTimeout(ctx, fleetServerTime)
	defer cancel()
	nodes, err := o.Nodes(asking)
	if err != nil {
		return err
	}
	r.canary = first.Only
	next, inForce := fleet.Revision{Desired: first.Desired, By: operatorName(), Why: first.Why, Back: first.Back}, fleet.Revision{}
	if first.Rest != nil {
		inForce = fleet.Revision{Number: first.Rest.Revision, Desired: first.Rest.Desired}
	}
	return r.complete(ctx, o, first, next, inForce, nodes, out, progress)
}

// complete watches the canaries, which have been given the first revision, and then gives all nodes the next, or takes the canaries back to what is in
// force for the rest.
func (r *rollout) complete(ctx context.Context, o *fleet.Operator, first, next, inForce fleet.Revision, nodes []fleet.Node, out, progress io.Writer) error {
	err := r.await(ctx, o, first.Number, r.canary, beforehand(nodes, first.Before), progress)
	if err == nil {
		err = r.watch(ctx, o, first, progress)
	}
	if err == nil {
		return r.all(ctx, o, next, first.Number, nodes, out, progress)
	}
	back := fleet.Revision{Desired: inForce.Desired, By: next.By, Why: fmt.Sprintf("canary of revision %d failed", first.Number), Back: inForce.Number}
	if inForce.Back != 0 {
		back.Back = inForce.Back
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), fleetServerTime)
	defer cancel()
	b, backErr := o.Apply(undo, back, first.Number)
	if backErr != nil {
		return errors.Join(err, fmt.Errorf("and the canaries were not taken back: %w", backErr))
	}
	return fmt.Errorf("%w; only %s had revision %d, and revision %d takes it back", err, strings.Join(r.canary, ", "), first.Number, b)
}

// beforehand are the nodes with as many conditions as when the roll-out began.
func beforehand(nodes []fleet.Node, conditions map[string]int) []fleet.Node {
	nodes = slices.Clone(nodes)
	for i := range nodes {
		if count, there := conditions[nodes[i].Report.Node]; there {
			nodes[i].Degraded = make([]string, count)
		}
	}
	return nodes
}

// all gives every node a revision.
func (r *rollout) all(ctx context.Context, o *fleet.Operator, next fleet.Revision, after uint64, nodes []fleet.Node, out, progress io.Writer) error {
	last, cancelLast := context.WithTimeout(ctx, fleetServerTime)
	defer cancelLast()
	n, err := o.Apply(last, next, after)
	if err != nil {
		return err
	}
	if err := r.await(ctx, o, n, nil, nodes, progress); err != nil {
		return fmt.Errorf("revision %d is the desired state, but: %w", n, err)
	}
	_, err = fmt.Fprintf(out, "revision %d is in force at every node that reports\n", n)
	return err
}

func (r *rollout) await(ctx context.Context, o *fleet.Operator, n uint64, names []string, nodes []fleet.Node, progress io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	return o.Await(ctx, n, names, nodes, func(applied, all int) {
		fmt.Fprintf(progress, "revision %d: %d of %d nodes\n", n, applied, all)
	})
}

// watch looks at the canaries for a while, and until each has reported in it.
func (r *rollout) watch(ctx context.Context, o *fleet.Operator, first fleet.Revision, progress io.Writer) error {
	fmt.Fprintf(progress, "revision %d: watching %s for %v\n", first.Number, strings.Join(r.canary, ", "), r.hold)
	began := map[string]time.Time{} // by the servers' clock
	silent := slices.Clone(r.canary)
	end, last := time.After(r.hold), time.After(r.hold+fleet.ReportEvery/2)
	for ended, given := false, false; !ended || len(silent) > 0 && !given; {
		nodes, err := o.Nodes(ctx)
		if err != nil {
			return err
		}
		for _, now := range nodes {
			name := now.Report.Node
			if !slices.Contains(r.canary, name) {
				continue
			}
			switch at, there := began[name]; {
			case !there:
				began[name] = now.Received
			case now.Received.After(at):
				silent = slices.DeleteFunc(silent, func(s string) bool { return s == name })
			}
			switch {
			case now.Late:
				return fmt.Errorf("canary %s does not report any more", name)
			case now.Refused == first.Number:
				return fmt.Errorf("canary %s refuses revision %d: %s", name, first.Number, now.Error)
			case len(now.Degraded) > first.Before[name]:
				return fmt.Errorf("canary %s is degraded: %s", name, strings.Join(now.Degraded, ", "))
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			ended = true
		case <-last:
			given = true
		case <-time.After(time.Second):
		}
	}
	if len(silent) > 0 {
		return fmt.Errorf("%s did not report while it was watched", strings.Join(silent, ", "))
	}
	return nil
}
