// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"tidegate/internal/bugreport"
	"tidegate/internal/cli"
	"tidegate/internal/config"
)

func newReportCmd() *cobra.Command {
	var path, name, output string
	var addresses bool
	cmd := &cobra.Command{
		Use:   "report [-c FILE] [-o FILE]",
		Short: "Pack what a bug report needs into one file, without secrets and addresses",
		Long: `Pack versions, checks, the configuration, the instance's state, its events, its log and the interfaces into one compressed file.
Keys, URLs, commands of event hooks and this machine's name are left out; every address becomes a stand-in such as ip4-3, the
same one everywhere, unless --addresses keeps them. Nothing is sent. Read it before you give it away.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if path == "" {
				if usual := "/etc/tidegate/" + name + ".yaml"; readable(usual) {
					path = usual
				}
			} else if c, err := config.Load(path); err == nil && !cmd.Flags().Changed("instance") {
				name = c.Instance
			}
			host, _ := os.Hostname()
			now := time.Now().UTC()
			folder := "tidegate-report-" + now.Format("20060102-150405")
			if output == "" {
				output = folder + ".tar.gz"
			}
			f, err := os.OpenFile(output, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				return fmt.Errorf("write the report: %w; name another file with -o", err)
			}
			defer func() {
				if err = errors.Join(err, f.Close()); err != nil {
					_ = os.Remove(output)
				}
			}()
			failed, err := bugreport.Write(f, folder, now, reportParts(cmd.Context(), path, name), &bugreport.Redactor{Addresses: addresses, Host: host})
			if err != nil {
				return fmt.Errorf("write the report: %w", err)
			}
			for _, part := range failed {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: not complete; it says why\n", part)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s; read it before you send it: tar xzf %s\n", output, output)
			return err
		},
	}
	cmd.Flags().StringVarP(&path, "config", "c", "", "the instance's configuration `FILE` (default /etc/tidegate/NAME.yaml, if that exists)")
	cmd.Flags().StringVar(&name, "instance", "default", "`NAME` of the instance; with -c, the one that the file names")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write it to `FILE`, which must not exist")
	cmd.Flags().BoolVar(&addresses, "addresses", false, "keep addresses")
	return cmd
}

func readable(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// reportParts are the contents of the report: mostly the output of other commands.
func reportParts(ctx context.Context, path, name string) []bugreport.Part {
	check := []string{"check", "--json"}
	parts := []bugreport.Part{
		{Name: "version.txt", Make: own(ctx, "version")},
		{Name: "kernel.txt", Make: kernelText},
		{Name: "status.json", Make: own(ctx, "status", "--json", "--instance", name)},
		{Name: "events.jsonl", Make: own(ctx, "events", "--json", "--instance", name)},
		{Name: "interfaces.txt", Make: interfacesText},
		{Name: "log.txt", Make: func() (string, error) {
			return output(ctx, "journalctl", "--no-pager", "-n", "1000", "-o", "short-iso", "-u", "tidegate@"+name, "-u", "tidegate-manager@"+name)
		}},
	}
	if path != "" {
		check = append(check, "-c", path)
		parts = append(parts, bugreport.Part{Name: "configuration.yaml", Make: func() (string, error) {
			text, err := os.ReadFile(path)
			return string(text), err
		}})
	}
	return append(parts, bugreport.Part{Name: "check.json", Make: own(ctx, check...)})
}

// own is the output of one of this program's own commands.
func own(ctx context.Context, args ...string) func() (string, error) {
	return func() (string, error) {
		root := newRootCmd()
		var out, complaints bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&complaints)
		root.SetArgs(args)
		err := root.ExecuteContext(ctx)
		if errors.Is(err, cli.ErrSilent) { // already reported
			err = nil
		}
		return out.String() + complaints.String(), err
	}
}

// output is the output of another program.
func output(ctx context.Context, argv ...string) (string, error) {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	text, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return string(text), err
}

func kernelText() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	field := unix.ByteSliceToString
	return fmt.Sprintf("%s %s %s %s\n", field(u.Sysname[:]), field(u.Release[:]), field(u.Version[:]), field(u.Machine[:])), nil
}

func interfacesText() (string, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, l := range links {
		a := l.Attrs()
		fmt.Fprintf(&b, "%d %s: %s, MTU %d, master %d, queues %d/%d, %s", a.Index, a.Name, l.Type(), a.MTU, a.MasterIndex, a.NumRxQueues, a.NumTxQueues, a.OperState)
		if a.Xdp != nil && a.Xdp.Attached {
			fmt.Fprintf(&b, ", XDP program %d", a.Xdp.ProgId)
		}
		fmt.Fprintln(&b)
	}
	return b.String(), nil
}
