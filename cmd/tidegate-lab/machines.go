// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/machines"
)

func newMachinesCmd() *cobra.Command {
	o := machines.DefaultOptions()
	only, rate, list, asJSON := "", o.Rate.String(), false, false
	mebibytes := o.Bulk >> 20
	cmd := &cobra.Command{
		Use:   "machines",
		Short: "Build common kinds of machines, and compare what clients get without and with tidegate",
		Long: `Build each machine (firewall, containers, bridges, routers, other programs) from network
namespaces, and let clients of both families use its service three times: without tidegate, with it,
and with it under a flood. A machine is as expected when the same clients are served each time, when
the server sees the same addresses, when the flood meets cookies and not the kernel, and when
connections are taken over in the expected way, by adopt or translate. The canaries are machines that
must fail. The exit code is 1 if a machine is not as expected. Needs root, and the programs of the
machines (docker.io, podman and others; a machine that cannot be built is not as expected).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Rate, err = load.ParseRate(rate); err != nil || o.Rate < 1000 {
				return cli.UsageErrorf("--rate %s: want at least 1000 SYNs a second", rate)
			}
			if o.Clients < 25 || o.Clients > 1000 {
				return cli.UsageErrorf("--clients %d: want 25 to 1000: some machines serve 20", o.Clients)
			}
			if o.Bulk = mebibytes << 20; mebibytes < 1 || mebibytes > 1<<20 {
				return cli.UsageErrorf("--bulk %d: want 1 to 1048576 MiB", mebibytes)
			}
			if only != "" {
				if o.Only, err = regexp.Compile(only); err != nil {
					return cli.UsageErrorf("--run: %v", err)
				}
			}
			if list {
				for _, s := range o.Choose() {
					fmt.Fprintf(cmd.OutOrStdout(), "%-40s %s\n", s.Name, s.About)
				}
				return nil
			}
			o.Progress = progressTo(cmd.ErrOrStderr())
			ctx, stop := labContext(cmd)
			defer stop()
			r, err := machines.Run(ctx, o)
			if err != nil {
				return interrupted(ctx, err)
			}
			if err := output(cmd.OutOrStdout(), r, asJSON); err != nil {
				return err
			}
			if len(r.Failed()) > 0 {
				return cli.ErrSilent
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&only, "run", "", "only the machines whose name matches this `REGEXP`")
	f.BoolVar(&o.Quick, "quick", false, "only the few machines that make test builds")
	f.BoolVar(&list, "list", false, "only print the names")
	f.StringVar(&rate, "rate", rate, "flood in SYNs per second")
	f.IntVar(&o.Clients, "clients", o.Clients, "clients of each family, each time")
	f.Int64Var(&mebibytes, "bulk", mebibytes, "MiB each way of the machines offload/")
	jsonFlag(f, &asJSON)
	return cmd
}
