// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"os/user"
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

// withReports is with, for what looks at the newest revision and all reports.
func (f *fleetCmd) withReports(cmd *cobra.Command, do func(now fleet.Revision, nodes []fleet.Node) error) error {
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
		return do(now, nodes)
	})
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
	cmd.AddCommand(f.initCmd(), f.applyCmd(), f.diffCmd(), f.rollbackCmd(), f.historyCmd(), f.statusCmd(), f.topCmd(), f.offersCmd(), f.eventsCmd(), f.rollSecretCmd(),
		f.listCmd(sourcelist.Allow, "Make an exception from a wider denied prefix at all nodes"), f.listCmd(sourcelist.Deny, "Drop the SYNs of a prefix at all nodes"), f.removeCmd())
	return cmd
}

func (f *fleetCmd) initCmd() *cobra.Command {
	replicas := 3
	cmd := &cobra.Command{Use: "init", Short: "Create the fleet's buckets and streams; of existing ones, correct what the rights of nodes depend on", Args: cobra.NoArgs,
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
