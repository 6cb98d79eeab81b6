// SPDX-License-Identifier: Apache-2.0

package device

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Comparison is one pair of rows.
type Comparison struct {
	A string `json:"a"`
	B string `json:"b"`
	TTest
	PBonferroni float64 `json:"p_bonferroni,omitempty"`
	Tested      bool    `json:"tested"` // false: too few samples, or no spread
}

// Tables are the paper's Tables 4 and 5, measured.
type Tables struct {
	NoAttack    Row          `json:"no_attack"`
	Table4      []Row        `json:"table4"`
	Comparisons []Comparison `json:"table4_comparisons"`
	Table5      []Row        `json:"table5"`
	ANOVA       *ANOVA       `json:"table5_anova,omitempty"`
	PostHoc     []Comparison `json:"table5_post_hoc"`
	Seconds     int          `json:"seconds"`
	Samples     int          `json:"samples"`
}

// table4Layouts are the paper's three and, after them, ours.
func table4Layouts() []string {
	return []string{LayoutFreeBSD, LayoutLinuxSHA1, LayoutHybrid, LayoutLinux, LayoutTidegate}
}

// tableConfigs are the configurations of both tables: that without attack, one for each layout,
// and one for each queue of recycling.
func tableConfigs() []Config {
	list := []Config{{PolicyCookiesAlways, LayoutHybrid, 8}}
	for _, l := range table4Layouts() {
		list = append(list, Config{PolicyCookiesAlways, l, 8})
	}
	for _, q := range Queues() {
		list = append(list, Config{PolicyRecycle, LayoutHybrid, q})
	}
	return list
}

// RunTables measures what the paper measured: every SYN answered with a cookie,
// by layout, and recycling against cookies, by queue.
func RunTables(ctx context.Context, o Options) (*Tables, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r, err := newRunner(o)
	if err != nil {
		return nil, err
	}
	if o.Journal != "" {
		key, err := Identity(ctx, o)
		if err != nil {
			return nil, err
		}
		if r.journal, err = openJournal(o.Journal, key); err != nil {
			return nil, err
		}
		defer r.journal.close() // each sample was written when it was measured
	}
	var cells []*cell
	for _, c := range tableConfigs() {
		cells = append(cells, &cell{Config: c, rate: o.Rate})
	}
	calm := cells[0]
	calm.rate = 0
	four := cells[1 : 1+len(table4Layouts())]
	five := slices.Clone(cells[1+len(table4Layouts()):])
	if err := r.sample(ctx, cells); err != nil {
		return nil, err
	}
	five = append(five, four[2]) // cookies: the hybrid ones, as in the paper
	t := &Tables{Seconds: o.Seconds, Samples: o.Samples}
	if t.NoAttack, err = r.row(ctx, calm); err != nil {
		return nil, err
	}
	for _, c := range four {
		row, err := r.row(ctx, c)
		if err != nil {
			return nil, err
		}
		t.Table4 = append(t.Table4, row)
	}
	for _, c := range five {
		row, err := r.row(ctx, c)
		if err != nil {
			return nil, err
		}
		t.Table5 = append(t.Table5, row)
	}
	t.analyse()
	return t, nil
}

func (t *Tables) analyse() {
	t.Comparisons = compareAll(t.Table4[:3], func(r Row) string { return r.Layout }, false)
	var samples []Sample
	for _, r := range t.Table5 {
		samples = append(samples, r.Throughput)
	}
	if a, ok := AnalyseVariance(samples); ok {
		t.ANOVA = &a
	}
	t.PostHoc = compareAll(t.Table5, table5Name, true)
}

func table5Name(r Row) string {
	if r.Policy == PolicyRecycle {
		return fmt.Sprintf("recycle %d", r.Queue)
	}
	return "cookies"
}

func compareAll(rows []Row, name func(Row) string, bonferroni bool) []Comparison {
	var all []Comparison
	pairs := len(rows) * (len(rows) - 1) / 2
	for i := range rows {
		for j := i + 1; j < len(rows); j++ {
			c := Comparison{A: name(rows[i]), B: name(rows[j])}
			if c.TTest, c.Tested = CompareMeans(rows[i].Throughput, rows[j].Throughput); c.Tested && bonferroni {
				c.PBonferroni = Bonferroni(c.P, pairs)
			}
			all = append(all, c)
		}
	}
	return all
}

// Write prints the tables beside the paper's numbers.
func (t *Tables) Write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "Table 4. Throughput in Mb/s (%d samples of %d s), instructions\n", t.Samples, t.Seconds)
	fmt.Fprintln(tw, "\tmean\tstd dev\tof no attack\tpaper: mean\tstd dev\tof no attack\tper SYN\tper ACK")
	fmt.Fprintf(tw, "no attack\t%.3f\t%.3f\t\t%.2f\t%.3f\t\t\t\n", t.NoAttack.Throughput.Mean, t.NoAttack.Throughput.SD,
		paperNoAttack.Mean, paperNoAttack.SD)
	for _, r := range t.Table4 {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%d\n", r.Layout, t.measured(r.Throughput), quoted(paperTable4()[r.Layout]), r.SYN, r.ACK)
	}
	fmt.Fprintln(tw)
	writeComparisons(tw, t.Comparisons, false)
	fmt.Fprintln(tw)
	fmt.Fprintf(tw, "Table 5. Recycling the oldest half-open connection, and cookies; Mb/s\n")
	fmt.Fprintln(tw, "\tmean\tstd dev\tof no attack\tpaper: mean\tstd dev\tof no attack\tper SYN\tper ACK\tmin\tmax")
	for i, r := range t.Table5 {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%d\t%.3f\t%.3f\n", table5Name(r), t.measured(r.Throughput), quoted(paperTable5()[i]),
			r.SYN, r.ACK, r.Throughput.Min, r.Throughput.Max)
	}
	fmt.Fprintln(tw)
	if a := t.ANOVA; a != nil {
		fmt.Fprintf(tw, "ANOVA: F(%.0f, %.0f) = %.3f, p = %.3g (paper: F(4, 145) = 938.966, p = .000)\n", a.DFBetween, a.DFWithin, a.F, a.P)
	} else {
		fmt.Fprintln(tw, "ANOVA: needs two samples or more")
	}
	writeComparisons(tw, t.PostHoc, true)
	return tw.Flush()
}

func (t *Tables) measured(s Sample) string {
	return fmt.Sprintf("%.3f\t%.3f\t%.1f %%", s.Mean, s.SD, 100*s.Mean/t.NoAttack.Throughput.Mean)
}

func quoted(s Sample) string {
	if s.N == 0 {
		return "\t\t"
	}
	return fmt.Sprintf("%.2f\t%.3f\t%.1f %%", s.Mean, s.SD, 100*s.Mean/paperNoAttack.Mean)
}

func writeComparisons(w io.Writer, all []Comparison, bonferroni bool) {
	for _, c := range all {
		if !c.Tested {
			fmt.Fprintf(w, "%s - %s: not tested: needs two samples or more\n", c.A, c.B)
			continue
		}
		fmt.Fprintf(w, "%s - %s: t(%.0f) = %.3f, p = %.3g, d = %.2f, 95 %% of the difference in %.4f to %.4f",
			c.A, c.B, c.DF, c.T, c.P, c.D, c.Low, c.High)
		if bonferroni {
			fmt.Fprintf(w, ", Bonferroni p = %.3g", c.PBonferroni)
		}
		fmt.Fprintln(w)
	}
}
