// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/detect"
	"tidegate/internal/lab/traces"
)

func newDetectorCmd() *cobra.Command {
	var seed uint64
	var seeds int
	var plotFile string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "detector",
		Short: "Replay traces to the attack detector and print its delays and false alarms",
		Long: `Generate traces from a seed (steady, diurnal, flash crowds, slow ramp, pulses, carpet over a /24 and others) and replay
them to the detector of mode auto, in virtual time. Nothing is sent. The exit code is 1 if an attack is detected too
late, or anything else is detected.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seeds < 1 || seeds > 1000 {
				return cli.UsageErrorf("--seeds %d: want 1 to 1000", seeds)
			}
			table, first := traces.RunAll(seed, seeds, detect.Default())
			if plotFile != "" {
				f, err := os.Create(plotFile)
				if err != nil {
					return err
				}
				if err := errors.Join(traces.Plot(f, first, table.Params.N), f.Close()); err != nil {
					return err
				}
			}
			if err := output(cmd.OutOrStdout(), table, asJSON); err != nil {
				return err
			}
			if !table.Good() {
				return errors.New("the detector does not behave as expected")
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&seed, "seed", 1, "the first seed")
	f.IntVar(&seeds, "seeds", 3, "number of seeds")
	f.StringVar(&plotFile, "plot", "", "also draw SYNs, completed handshakes and y_n over time, to this SVG `FILE`")
	jsonFlag(f, &asJSON)
	return cmd
}
