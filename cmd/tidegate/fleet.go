// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"os/user"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/fleet"
	"tidegate/internal/sourcelist"
)

// fleetServer is the time that the servers have to answer.
const fleetServerTime = 10 * time.Second

// fleetCmd are the flags of all commands of a fleet.
type fleetCmd struct{ access fleet.Access }

// with runs do with a connected operator.
func (f *fleetCmd) with(cmd *cobra.Command, do func(ctx context.Context, o *fleet.Operator) error) error {
	if len(f.access.Servers) == 0 {
		return cli.UsageErrorf("no server; name one with --server, such as tls://192.0.2.10:4222")
	}
	f.access.Name = "tidegate operator " + operatorName()
	o, err := fleet.Connect(f.access)
	if err != nil {
		return err
	}
	defer o.Close()
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return do(ctx, o)
}

// operatorName is who changes the fleet, as its history shows.
func operatorName() string {
	name, host := "uid "+fmt.Sprint(os.Getuid()), ""
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, _ = os.Hostname()
	return name + "@" + host
}

func newFleetCmd() *cobra.Command {
	f := &fleetCmd{}
	cmd := &cobra.Command{Use: "fleet", Short: "Change and watch many gates at once, by NATS", Args: cobra.NoArgs,
		Long: `Change and watch the gates whose configuration has a "fleet:" section. They follow one desired state, which is kept by
NATS servers with JetStream. What the servers do never stops a gate: it goes on with the last state that it applied.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	p := cmd.PersistentFlags()
	p.StringArrayVar(&f.access.Servers, "server", nil, "`ADDRESS` of a NATS server; may be repeated")
	p.StringVar(&f.access.CA, "ca", "", "`FILE` of the authority that signs the servers' certificates")
	p.StringVar(&f.access.Cert, "cert", "", "`FILE` of your certificate")
	p.StringVar(&f.access.Key, "key", "", "`FILE` of its key")
	cmd.AddCommand(f.initCmd(), f.applyCmd(), f.diffCmd(), f.rollbackCmd(), f.historyCmd(), f.statusCmd(), f.eventsCmd(), f.rollSecretCmd(),
		f.listCmd(sourcelist.Allow, "Make an exception from a wider denied prefix at all nodes"), f.listCmd(sourcelist.Deny, "Drop the SYNs of a prefix at all nodes"), f.removeCmd())
	return cmd
}

func (f *fleetCmd) initCmd() *cobra.Command {
	replicas := 3
	cmd := &cobra.Command{Use: "init", Short: "Create the fleet's buckets; existing ones stay as they are", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, func(ctx context.Context, o *fleet.Operator) error {
				ctx, cancel := context.WithTimeout(ctx, fleetServerTime)
				defer cancel()
				return o.Init(ctx, replicas)
			})
		}}
	cmd.Flags().IntVar(&replicas, "replicas", replicas, "`NUMBER` of servers that keep a copy")
	return cmd
}

// rollout is how a revision reaches the nodes.
type rollout struct {
	canary  []string
	hold    time.Duration
	timeout time.Duration
}

func (r *rollout) flags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&r.canary, "canary", nil, "`NODES` that get it first, separated by commas; if one refuses it or is degraded, the rest does not get it and they go back")
	cmd.Flags().DurationVar(&r.hold, "hold", 30*time.Second, "how long to watch the canaries")
	cmd.Flags().DurationVar(&r.timeout, "timeout", 30*time.Second, "how long to wait for the nodes")
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

func readDesired(path string) (*fleet.Desired, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d, err := fleet.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

func (f *fleetCmd) applyCmd() *cobra.Command {
	r := rollout{}
	var why string
	resume := false
	cmd := &cobra.Command{Use: "apply FILE", Short: "Make a file the desired state of all nodes", Args: cobra.MaximumNArgs(1),
		Long: `Make a file the desired state of all nodes, and wait until those that report have it in force. If another operator changed the desired
state in between, nothing happens, and the command says what they did. With --resume and no file, complete a roll-out that has reached only its
canaries, because this command was killed or cut off; ` + "`tidegate fleet rollback`" + ` takes it back instead.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := r.check(); err != nil {
				return err
			}
			if resume {
				if len(args) > 0 || len(r.canary) > 0 {
					return cli.UsageErrorf("--resume completes what was applied: it takes neither a file nor --canary")
				}
				return f.with(cmd, func(ctx context.Context, o *fleet.Operator) error {
					seen, err := o.Current(ctx)
					if err != nil {
						return err
					}
					if seen.Unfinished() == "" {
						return errors.New("no roll-out is unfinished: the newest revision is for all nodes")
					}
					return r.resume(ctx, o, seen, cmd.OutOrStdout(), cmd.ErrOrStderr())
				})
			}
			if len(args) == 0 {
				return cli.UsageErrorf("name the file of the desired state, or use --resume")
			}
			d, err := readDesired(args[0])
			if err != nil {
				return err
			}
			return f.with(cmd, func(ctx context.Context, o *fleet.Operator) error {
				seen, err := o.Current(ctx)
				if err != nil {
					return err
				}
				if seen.Error != "" {
					fmt.Fprintf(cmd.ErrOrStderr(), "revision %d is garbage, which every node refuses (%s); it is replaced\n", seen.Number, seen.Error)
				}
				return r.run(ctx, o, fleet.Revision{Desired: *d, Why: why}, seen, cmd.OutOrStdout(), cmd.ErrOrStderr())
			})
		}}
	r.flags(cmd)
	cmd.Flags().BoolVar(&resume, "resume", false, "complete an interrupted roll-out instead")
	cmd.Flags().StringVar(&why, "why", "", "`TEXT` that `tidegate fleet history` shows")
	return cmd
}

func (f *fleetCmd) diffCmd() *cobra.Command {
	return &cobra.Command{Use: "diff FILE", Short: "Show what `fleet apply` of a file would change", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := readDesired(args[0])
			if err != nil {
				return err
			}
			return f.with(cmd, func(ctx context.Context, o *fleet.Operator) error {
				seen, err := o.Current(ctx)
				if err != nil {
					return err
				}
				if seen.Error != "" || len(seen.Only) > 0 {
					all, err := o.History(ctx)
					if err != nil {
						return err
					}
					what := seen.Unfinished()
					if seen.Error != "" {
						what = fmt.Sprintf("revision %d is garbage, which every node refuses (%s)", seen.Number, seen.Error)
					}
					last, err := fleet.LastForAll(all, seen.Number)
					if err != nil {
						return fmt.Errorf("%s; %w, so there is nothing to compare with", what, err)
					}
					fmt.Fprintf(cmd.ErrOrStderr(), "%s; compared with revision %d\n", what, last.Number)
					seen = last
				}
				lines := fleet.Diff(&seen.Desired, d)
				if len(lines) == 0 {
					lines = []string{"no difference"}
				}
				_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(lines, "\n"))
				return err
			})
		}}
}

func (f *fleetCmd) rollbackCmd() *cobra.Command {
	r, to := rollout{}, uint64(0)
	cmd := &cobra.Command{Use: "rollback", Short: "Make an earlier revision the desired state again", Args: cobra.NoArgs,
		Long: `Make an earlier revision the desired state again: the one before what is in force, or, of a roll-out that has reached only its canaries, what
the other nodes have. Each further rollback goes one revision further back.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := r.check(); err != nil {
				return err
			}
			return f.with(cmd, func(ctx context.Context, o *fleet.Operator) error {
				all, err := o.History(ctx)
				if err != nil {
					return err
				}
				back, err := fleet.Before(all, to)
				if err != nil {
					return err
				}
				next := fleet.Revision{Desired: back.Desired, Why: fmt.Sprintf("back to revision %d", back.Number), Back: back.Number}
				return r.run(ctx, o, next, all[len(all)-1], cmd.OutOrStdout(), cmd.ErrOrStderr())
			})
		}}
	r.flags(cmd)
	cmd.Flags().Uint64Var(&to, "to", 0, "`REVISION`; without it: the one before")
	return cmd
}

func (f *fleetCmd) historyCmd() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{Use: "history", Short: "List the revisions that can be rolled back to", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, func(ctx context.Context, o *fleet.Operator) error {
				all, err := o.History(ctx)
				if err != nil {
					return err
				}
				if asJSON {
					return cli.WriteJSON(cmd.OutOrStdout(), all)
				}
				t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(t, "REVISION\tAT\tBY\tFOR\tWHY")
				for _, r := range all {
					only, why := "all", r.Why
					if len(r.Only) > 0 {
						only = strings.Join(r.Only, ",")
					}
					if r.Error != "" {
						why = "REFUSED BY EVERY NODE: " + r.Error
					}
					fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\n", r.Number, r.At.UTC().Format(time.RFC3339), r.By, only, why)
				}
				return t.Flush()
			})
		}}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON array on stdout")
	return cmd
}

func (f *fleetCmd) statusCmd() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{Use: "status", Short: "Show every node: revision, modes, clock, keys, what degrades it", Args: cobra.NoArgs,
		Long: `Show every node that reported in the last 24 hours. A clock that differs, a secret that most others do not have, a refused revision and
missing reports are named, and a roll-out that is not finished. The exit code is 1 if there is any of these, or a node is degraded.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, func(ctx context.Context, o *fleet.Operator) error {
				ctx, cancel := context.WithTimeout(ctx, fleetServerTime)
				defer cancel()
				now, err := o.Current(ctx)
				if err != nil {
					return err
				}
				nodes, err := o.Nodes(ctx)
				if err != nil {
					return err
				}
				wrong := fleet.Wrong(now, nodes)
				if asJSON {
					if err := cli.WriteJSON(cmd.OutOrStdout(), map[string]any{"revision": now.Number, "unfinished": now.Unfinished(), "error": now.Error, "nodes": nodes, "wrong": wrong}); err != nil {
						return err
					}
				} else if err := printNodes(cmd.OutOrStdout(), now, nodes, wrong); err != nil {
					return err
				}
				if len(wrong) == 0 && now.Unfinished() != "" {
					return errors.New("a roll-out is not finished")
				}
				if len(wrong) > 0 {
					return fmt.Errorf("%d of %d nodes need attention", len(wrong), len(nodes))
				}
				return nil
			})
		}}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object on stdout")
	return cmd
}

func printNodes(w io.Writer, now fleet.Revision, nodes []fleet.Node, wrong map[string][]string) error {
	fmt.Fprintf(w, "desired: revision %d by %s\n", now.Number, now.By)
	if now.Desired.Secret != nil {
		fmt.Fprintf(w, "next secret: %v\n", now.Desired.Secret)
	}
	for _, line := range []string{now.Unfinished(), now.Error} {
		if line != "" {
			fmt.Fprintln(w, line)
		}
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tVERSION\tROLE\tREVISION\tMODES\tCLOCK\tKEY\tREPORTED\tATTENTION")
	for _, n := range nodes {
		var modes []string
		for service, mode := range n.Modes {
			modes = append(modes, service+"="+string(mode))
		}
		slices.Sort(modes)
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%+.1fs\t%s\t%s ago\t%s\n", n.Report.Node, n.Version, n.Role, n.Revision, strings.Join(modes, " "), n.Skew.Seconds(), n.Key,
			time.Since(n.Received).Round(time.Second), strings.Join(wrong[n.Report.Node], "; "))
	}
	return t.Flush()
}
