// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/fleet"
	"tidegate/internal/keys"
	"tidegate/internal/sourcelist"
)

// change alters one thing in the desired state and waits for the nodes. If another operator comes first, it is done again on top of theirs.
func (f *fleetCmd) change(cmd *cobra.Command, r *rollout, why string, alter func(d *fleet.Desired) error) error {
	return f.with(cmd, func(ctx context.Context, o *fleet.Operator) error {
		for tries := 5; ; tries-- {
			seen, err := o.Current(ctx)
			if err != nil {
				return err
			}
			if what := seen.Unfinished(); what != "" {
				return fmt.Errorf("%s; end it first", what)
			}
			if seen.Error != "" {
				return fmt.Errorf("revision %d is garbage, which every node refuses (%s); make a valid one with `tidegate fleet rollback` or `tidegate fleet apply` first", seen.Number, seen.Error)
			}
			if err := alter(&seen.Desired); err != nil {
				return err
			}
			err = r.run(ctx, o, fleet.Revision{Desired: seen.Desired, Why: why}, seen, cmd.OutOrStdout(), cmd.ErrOrStderr())
			if !errors.Is(err, fleet.ErrLost) || tries == 0 {
				return err
			}
		}
	})
}

func (f *fleetCmd) listCmd(v sourcelist.Verdict, short string) *cobra.Command {
	r := &rollout{}
	var until, comment string
	var last time.Duration
	cmd := &cobra.Command{Use: v.String() + " PREFIX", Short: short, Args: cobra.ExactArgs(1),
		Long: short + `. The prefix becomes an entry of the desired state, where it replaces what was said of the same prefix, and is kept there
until it expires or ` + "`tidegate fleet remove`" + `. A later ` + "`tidegate fleet apply`" + ` of a file without it removes it, too.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := fleet.ParsePrefix(args[0])
			if err != nil {
				return cli.UsageErrorf("%s: want an address or a prefix such as 203.0.113.0/24", args[0])
			}
			end, err := expiry(last, until)
			if err != nil {
				return err
			}
			return f.change(cmd, r, v.String()+" "+p.String(), func(d *fleet.Desired) error {
				d.List(v, p, end, comment)
				return nil
			})
		}}
	cmd.Flags().DurationVar(&last, "for", 0, "expire after this `DURATION`")
	cmd.Flags().StringVar(&until, "until", "", "expire at this `TIME` (RFC 3339)")
	cmd.Flags().StringVar(&comment, "comment", "", "`TEXT` that `tidegate why` shows on the nodes")
	cmd.Flags().DurationVar(&r.timeout, "timeout", 30*time.Second, "wait for the nodes for this `DURATION`")
	return cmd
}

func (f *fleetCmd) removeCmd() *cobra.Command {
	r := &rollout{}
	cmd := &cobra.Command{Use: "remove PREFIX", Short: "Remove a prefix from the fleet's lists", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := fleet.ParsePrefix(args[0])
			if err != nil {
				return cli.UsageErrorf("%s: want an address or a prefix such as 203.0.113.0/24", args[0])
			}
			return f.change(cmd, r, "remove "+p.String(), func(d *fleet.Desired) error {
				if !d.Unlist(p) {
					return fmt.Errorf("%s is in neither list of the fleet", p)
				}
				return nil
			})
		}}
	cmd.Flags().DurationVar(&r.timeout, "timeout", 30*time.Second, "wait for the nodes for this `DURATION`")
	return cmd
}

func (f *fleetCmd) rollSecretCmd() *cobra.Command {
	r := &rollout{}
	var file, id, from string
	cmd := &cobra.Command{Use: "roll-secret", Short: "Announce the next secret, by its key id and time", Args: cobra.NoArgs,
		Long: `Announce that the nodes change to another secret at a time. Only its key id is published: 32 bits that are derived from it. The file itself reaches
the nodes by your secret store, as next_secret_file with next_secret_from. ` + "`tidegate fleet status`" + ` names the nodes that do not have it, that
roll at another time, and after the time those that still use another.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := time.Parse(time.RFC3339, from)
			if err != nil {
				return cli.UsageErrorf("--from %q: want a time such as 2027-01-31T12:00:00Z", from)
			}
			if (file == "") == (id == "") {
				return cli.UsageErrorf("name the secret with --secret-file or --key-id, one of them")
			}
			if file != "" {
				secret, err := keys.LoadSecret(file)
				if err != nil {
					return err
				}
				id = secret.Fingerprint()
				secret.Zero()
			}
			return f.change(cmd, r, "secret "+id+" from "+from, func(d *fleet.Desired) error {
				d.Secret = &fleet.Secret{Key: id, From: at.UTC()}
				return nil
			})
		}}
	cmd.Flags().StringVar(&file, "secret-file", "", "`FILE` of the next secret, of which only the key id leaves this machine")
	cmd.Flags().StringVar(&id, "key-id", "", "its key `ID`, as `tidegate fleet status` shows it")
	cmd.Flags().StringVar(&from, "from", "", "`TIME` (RFC 3339) of next_secret_from on all nodes")
	cmd.Flags().DurationVar(&r.timeout, "timeout", 30*time.Second, "wait for the nodes for this `DURATION`")
	return cmd
}

// expiry reads --for and --until; nil: never.
func expiry(last time.Duration, until string) (*time.Time, error) {
	switch {
	case last != 0 && until != "":
		return nil, errors.New("--for and --until exclude each other; name one")
	case last < 0:
		return nil, fmt.Errorf("--for %s: want a duration such as 30m", last)
	case last > 0:
		t := time.Now().Add(last)
		return &t, nil
	case until != "":
		t, err := time.Parse(time.RFC3339, until)
		if err != nil {
			return nil, fmt.Errorf("--until %s: want a time such as 2027-01-31T12:00:00Z", until)
		}
		return &t, nil
	}
	return nil, nil
}
