// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tidegate/internal/api"
	"tidegate/internal/cli"
	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
	"tidegate/internal/status"
)

func newStatusCmd() *cobra.Command {
	var name string
	var asJSON, ready bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state and counters of an instance",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			up, st, err := readStatus(cmd.Context(), name)
			if err != nil {
				return err
			}
			if ready {
				return printReady(cmd.OutOrStdout(), up, st)
			}
			if up != nil {
				if asJSON {
					return cli.WriteJSON(cmd.OutOrStdout(), up)
				}
				return printUpstreamStatus(cmd.OutOrStdout(), up)
			}
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(st)
			}
			return printStatus(cmd.OutOrStdout(), st)
		},
	}
	cmd.Flags().StringVar(&name, "instance", "default", "`NAME` of the instance")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object on stdout")
	cmd.Flags().BoolVar(&ready, "ready", false, "one line: what it does, or, with exit code 1, why it does not protect; for probes")
	cmd.MarkFlagsMutuallyExclusive("json", "ready")
	return cmd
}

func printReady(w io.Writer, up *instance.Upstream, st *status.Status) (err error) {
	var text string
	if up != nil {
		text, err = status.UpstreamReady(up)
	} else {
		text, err = st.Ready(time.Now())
	}
	if err == nil {
		fmt.Fprintln(w, text)
	}
	return err
}

// readStatus reads an instance, whether or not its process lives; without the rights, through the process.
func readStatus(ctx context.Context, name string) (up *instance.Upstream, st *status.Status, err error) {
	if up, err = status.ReadUpstream(instance.Options{}, name); err == nil && up == nil {
		st, err = status.Read(instance.Options{}, name)
	}
	if !errors.Is(err, fs.ErrPermission) {
		return up, st, err
	}
	var answer json.RawMessage
	if err := api.NewClient(stateDir, name).Do(ctx, http.MethodGet, "/v1/status", nil, &answer); err != nil {
		return nil, nil, err
	}
	var of struct{ Role string }
	if err := json.Unmarshal(answer, &of); err != nil {
		return nil, nil, err
	}
	switch of.Role {
	case config.RolePatrol, config.RoleBorderManager, config.RoleFilterManager:
		up = &instance.Upstream{}
		return up, nil, json.Unmarshal(answer, up)
	}
	st = &status.Status{}
	return nil, st, json.Unmarshal(answer, st)
}

func printStatus(w io.Writer, st *status.Status) error {
	fmt.Fprintf(w, "instance %s (%s), version %s, %s\n", st.Instance, interfaceModes(st), st.Version, life(st, time.Now()))
	printRefusedReload(w, st.RefusedReload)
	fmt.Fprintf(w, "epoch %d, keys until %s\n\n", st.Epoch, st.KeysUntil.Format(time.RFC3339))
	if len(st.Capturing) > 0 {
		fmt.Fprintln(w, capturing(st))
	}
	if st.Routers != nil {
		if err := printBGP(w, st.Routers); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	if st.P4 != nil {
		return printP4Status(w, st)
	}
	if st.Edge != nil {
		return printEdgeStatus(w, st)
	}
	if st.Forwarding != "" {
		return printProxyStatus(w, st)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SERVICE\tMODE\tLISTENER\tSYN\tCOOKIES\tVALID\tINVALID\tSTALE\tADOPTED\tPASSED\tDROPPED")
	for _, s := range st.Services {
		c := s.Counters
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", s.Name, s.Mode, s.Listener,
			c["syn"], c["cookie_sent"], c["cookie_valid"], c["cookie_invalid"], c["cookie_stale"],
			c["adopted"], sumPrefix(c, "pass_"), sumPrefix(c, "drop_"))
	}
	for _, s := range st.Services {
		for _, d := range s.Degraded {
			fmt.Fprintf(t, "\nUNPROTECTED: %s, listener %s: %s", s.Name, d.Listener, d.Explain())
		}
		if len(s.Degraded) > 0 {
			fmt.Fprintln(t)
		}
	}
	if l := st.Lists; l != nil {
		fmt.Fprintf(w, "lists: %d prefixes denied, %d allowed, %.1f MiB of memory\n", l.Deny, l.Allow, float64(l.Bytes)/(1<<20))
	}
	printSourceLimits(w, st.SourceLimits)
	if len(st.Takeovers) > 0 {
		fmt.Fprintln(t, "\nSERVICE\tTAKEOVER\tPORTS\tADDRESSES\tWHY")
		for _, c := range st.Takeovers {
			how := c.How
			if slices.ContainsFunc(st.Services, func(s status.Service) bool { return s.Name == c.Service && s.Mode == string(config.ModeMonitor) }) {
				how = "would " + how
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", c.Service, how, c.Ports, strings.Join(c.Addresses, " "), c.Why)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if st.Unverifiable {
		fmt.Fprintf(w, "\nUNPROTECTED: %s\n", status.Unverifiable)
	}
	for _, name := range slices.Sorted(maps.Keys(st.Detached)) {
		fmt.Fprintf(w, "\nNOT ATTACHED TO %s: %s; SYNs pass there unprotected\n", name, st.Detached[name])
	}
	for _, family := range slices.Sorted(maps.Keys(st.Unrouted)) {
		fmt.Fprintf(w, "\nROUTES OF %s ARE NOT MODELLED: %s; up to 200 SYNs a second go to the kernel, the rest is answered to where it came from\n", family, st.Unrouted[family])
	}
	return printReasons(w, st)
}

// interfaceModes are the interfaces, each with how XDP runs there, and why not faster.
func interfaceModes(st *status.Status) string {
	var list []string
	for _, name := range st.Interfaces {
		text := name
		if mode := st.XDP[name]; mode != "" {
			text += " " + string(mode)
		}
		if beside := st.Neighbours[name]; len(beside) > 0 {
			text += " (dispatcher: " + inOrder(beside) + ")"
		}
		if why := st.Refused[name]; why != "" {
			text += fmt.Sprintf(" (native XDP refused: %s)", why)
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

// capturing reports that programs with a capture are installed, and whether a capture is running.
func capturing(st *status.Status) string {
	at := strings.Join(st.Capturing, ", ")
	if st.Running {
		return fmt.Sprintf("CAPTURE under way at %s: `tidegate capture`\n", at)
	}
	return fmt.Sprintf("CAPTURE: its programs are still installed at %s, but capture nothing, because the daemon was killed; the next start puts the gate's own back\n", at)
}

// inOrder are the components of a dispatcher with their priorities, in the order in which they run.
func inOrder(list []plane.Neighbour) string {
	var names []string
	for _, n := range list {
		name := n.Program
		if n.Ours {
			name = "tidegate"
		}
		names = append(names, fmt.Sprintf("%s (%d)", name, n.Priority))
	}
	return strings.Join(names, ", ")
}

// printRefusedReload says that what runs is not what the file says; nil: it is, or nobody asked for a reload since.
func printRefusedReload(w io.Writer, r *instance.RefusedReload) {
	if r != nil {
		fmt.Fprintf(w, "LAST RELOAD REFUSED at %s: %s; the configuration before it is in force\n", r.At.Format(time.RFC3339), r.Error)
	}
}

// life describes whether the instance's process runs, and what happens if it does not.
func life(st *status.Status, now time.Time) string {
	switch {
	case st.Running && st.Draining:
		return fmt.Sprintf("pid %d, being taken down: SYNs pass", st.PID)
	case st.Starting:
		return "being started; what follows is of the process before"
	case st.Running:
		return fmt.Sprintf("pid %d, running", st.PID)
	case st.Draining:
		return "NOT running, half taken down: SYNs pass, what is translated goes on; `tidegate off` ends it, `tidegate run` protects again"
	}
	if st.Since.IsZero() { // a switch, or plane: dpdk
		return "NOT running; the packet path goes on until its keys expire"
	}
	after := "then SYNs pass unprotected"
	if st.StaleKeys == string(config.StaleKeysDrop) {
		after = "then SYNs are dropped"
	}
	if now.After(st.KeysUntil) {
		after = "which have ended: " + strings.TrimPrefix(after, "then ")
	}
	return fmt.Sprintf("running without a daemon since %s, keys until %s, %s; start it again, or `tidegate off`",
		st.Since.Format(time.RFC3339), st.KeysUntil.Format(time.RFC3339), after)
}

// printProxyStatus is the table of a proxy's services.
func printProxyStatus(w io.Writer, st *status.Status) error {
	if st.OneSided {
		fmt.Fprintln(w, "ONE SIDE ONLY: connections are begun towards servers and no answer passes here; strategies cookie and cache need symmetric paths")
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SERVICE\tMODE\tSTRATEGY\tSYN\tANSWERED\tVALID\tINVALID\tFORWARDED\tWHITELISTED\tOPENED\tREADY\tCLOSED\tDROPPED")
	for _, s := range st.Services {
		c := s.Counters
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", s.Name, s.Mode, s.Strategy,
			c["syn"], c["cookie_sent"]+c["challenge_sent"]+c["cache_kept"]+c["cache_known"],
			c["cookie_valid"]+c["cache_valid"], c["cookie_invalid"]+c["cache_invalid"],
			c["forward_white"], c["white_added"], c["flow_opened"], c["flow_ready"], c["flow_closed"],
			sumPrefix(c, "drop_"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	printSourceLimits(w, st.SourceLimits)
	return printReasons(w, st)
}

// printReasons lists every counter that is not zero and that the table does not
// show by itself.
func printReasons(w io.Writer, st *status.Status) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(service string, counters map[string]uint64) {
		for i := range schema.NumCounters {
			c := schema.Counter(i)
			if v := counters[c.String()]; v > 0 && (strings.Contains(c.String(), "_") || service == "-") {
				fmt.Fprintf(t, "%s\t%s\t%d\t%s\n", service, c, v, c.Help())
			}
		}
	}
	fmt.Fprintln(t, "\nSERVICE\tCOUNTER\tCOUNT\tMEANING")
	row("-", st.Global)
	for _, s := range st.Services {
		row(s.Name, s.Counters)
	}
	return t.Flush()
}

func sumPrefix(counters map[string]uint64, prefix string) (sum uint64) {
	for name, v := range counters {
		if strings.HasPrefix(name, prefix) {
			sum += v
		}
	}
	return sum
}

func printSourceLimits(w io.Writer, l *status.SourceLimits) {
	if l == nil {
		return
	}
	fmt.Fprintf(w, "source limits: %s; above that: %s", l.Describe(), l.Action)
	if len(l.Sources) == 0 {
		fmt.Fprintln(w, "; no source was")
		return
	}
	fmt.Fprintln(w)
	for _, o := range l.Sources {
		fmt.Fprintf(w, "  %s: %s\n", o.Prefix, o.Describe())
	}
	if l.More > 0 {
		fmt.Fprintf(w, "  and %d more\n", l.More)
	}
}
