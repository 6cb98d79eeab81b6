// SPDX-License-Identifier: Apache-2.0

// Package book runs the experiments behind the tables and figures of the five papers that Tidegate is
// built on, and writes our number beside the paper's. Each figure or table is one unit with a
// result file of its own, so that a run of hours can be interrupted and continued. It measures
// nothing itself: every number comes from the function that a subcommand of tidegate-lab has, too.
package book

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"tidegate/internal/lab/rig"
	"tidegate/internal/version"
)

// Setting is how thoroughly units are run.
type Setting struct {
	Smallest bool // seconds for each unit: shows that it runs, and decides nothing
	Seconds  int  // length of each run of clients within a unit; 0: the unit's own
	// Dir is where a unit may keep what it has measured so far; empty: nowhere.
	Dir string `json:"-"`
	// Exe is the tidegate binary; empty: the one that the lab finds.
	Exe      string               `json:"-"`
	Progress func(string, ...any) `json:"-"`
}

// duration is how long clients make requests in one run.
func (s Setting) duration(own time.Duration) time.Duration {
	switch {
	case s.Seconds > 0:
		return time.Duration(s.Seconds) * time.Second
	case s.Smallest:
		return min(own, time.Second)
	}
	return own
}

// Unit is one experiment that is run, and kept, as a whole.
type Unit struct {
	Name string // also of its result file
	Run  func(context.Context, Setting) (*Finding, error)
	// Tree identifies what is measured, where that is not the programs of Options.Tree; nil: it is.
	Tree func(context.Context, Setting) (string, error)
	// Derive makes the finding again from the data of a kept result; nil: the finding is kept as it was.
	Derive func(data json.RawMessage) (*Finding, error)
	// Asked: the unit is run only where it is named, since it takes other kernels or hours.
	Asked bool
	Takes time.Duration // about, on an idle machine, in its full form
}

// tree identifies what a unit measures.
func (u *Unit) tree(ctx context.Context, o *Options) (string, error) {
	if u.Tree == nil {
		return o.Tree, nil
	}
	return u.Tree(ctx, o.Setting)
}

// Item is a table or a figure of a paper.
type Item struct {
	Name string // as the paper numbers it
	What string
	Unit string // that measures it; empty: none does
	Not  string // what cannot be done here, or is not done yet, and why
}

// Chapter is one paper.
type Chapter struct {
	Name, Title string
	Items       []Item
	Units       []Unit
}

// Chapters returns all chapters, in the order of the index.
func Chapters() []Chapter {
	return []Chapter{meLove(), smartCookie(), class2(), lemon(), terminusChapter()}
}

// Names returns the names of the chapters.
func Names() (names []string) {
	for _, c := range Chapters() {
		names = append(names, c.Name)
	}
	return names
}

// Line is one of our numbers beside the paper's.
type Line struct {
	Item   string `json:"item"`
	What   string `json:"what"`
	Ours   string `json:"ours"`
	Paper  string `json:"paper"`            // empty: it has none
	Agrees *bool  `json:"agrees,omitempty"` // null: not comparable
	Reason string `json:"reason,omitempty"` // of a difference, or why there is no comparison
}

// compare makes a line with a verdict.
func compare(item, what, ours, paper string, agrees bool, reason string) Line {
	l := Line{Item: item, What: what, Ours: ours, Paper: paper, Agrees: &agrees}
	if !agrees {
		l.Reason = reason
	}
	return l
}

// beside makes a line without a verdict.
func beside(item, what, ours, paper, reason string) Line {
	return Line{Item: item, What: what, Ours: ours, Paper: paper, Reason: reason}
}

// Finding is what a unit found.
type Finding struct {
	Lines []Line `json:"lines"`
	Plots []Plot `json:"plots,omitempty"`
	Data  any    `json:"data"` // of the function that measured
}

// Machine is where a unit ran. A load above zero at the start is other work.
type Machine struct {
	Kernel    string `json:"kernel"`
	CPU       string `json:"cpu"`
	CPUs      int    `json:"cpus"`
	LoadStart string `json:"load_average_at_start"` // of the last 1, 5 and 15 minutes
	LoadEnd   string `json:"load_average_at_end"`
}

// Outcome is the content of a unit's result file.
type Outcome struct {
	Chapter  string    `json:"chapter"`
	Unit     string    `json:"unit"`
	Tree     string    `json:"tree"` // the programs that measured
	Version  string    `json:"version"`
	Command  string    `json:"command"`
	Setting  Setting   `json:"setting"`
	Begun    time.Time `json:"begun"`
	Seconds  float64   `json:"seconds"`
	Machine  Machine   `json:"machine"`
	Error    string    `json:"error,omitempty"` // why there is no finding
	*Finding `json:"finding,omitempty"`
}

// Options are what `tidegate-lab book` does.
type Options struct {
	Setting
	Chapters []string // or units, as CHAPTER/UNIT; empty: all
	Pages    bool     // only write the pages again
	Again    bool     // units with a finished result, too
	Out      string   // directory of pages, plots and results
	Tree     string   // of this run: Tree(); a result of another tree is not kept
}

// Validate checks the options.
func (o *Options) Validate() error {
	for _, name := range o.Chapters {
		if !slices.ContainsFunc(Chapters(), func(c Chapter) bool {
			return name == c.Name || slices.ContainsFunc(c.Units, func(u Unit) bool { return name == c.Name+"/"+u.Name })
		}) {
			return fmt.Errorf("chapter %q: want some of %s, or CHAPTER/UNIT, as a page of results names its units", name, strings.Join(Names(), ", "))
		}
	}
	if o.Seconds < 0 || o.Seconds > 3600 {
		return fmt.Errorf("--seconds %d: want 1 to 3600, or 0 for each unit's own", o.Seconds)
	}
	if o.Out == "" {
		return errors.New("--out: name a directory for pages and results")
	}
	return nil
}

// command is what repeats a unit.
func (o *Options) command(unit string) string {
	c := "tidegate-lab book " + unit
	if o.Smallest {
		c += " --smallest"
	}
	if o.Seconds > 0 {
		c += fmt.Sprintf(" --seconds %d", o.Seconds)
	}
	return c
}

// Run runs what has no finished result, keeps every result as soon as there is one, and writes the
// pages of all results that there are, also after Ctrl-C. A unit that fails does not keep the
// others from running.
func Run(ctx context.Context, o Options) ([]*Outcome, error) {
	return run(ctx, o, Chapters())
}

func run(ctx context.Context, o Options, chapters []Chapter) (all []*Outcome, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.Dir = filepath.Join(o.Out, "data")
	if o.Progress == nil {
		o.Progress = func(string, ...any) {}
	}
	left := o.left(chapters)
	var errs []error
	for _, c := range chapters {
		for i, u := range c.Units {
			kept, err := read(o.Out, c.Name, u.Name)
			if err != nil {
				return nil, err
			}
			if o.chosen(c, u) && ctx.Err() == nil {
				left -= u.Takes
				tree, err := u.tree(ctx, &o)
				if err != nil {
					return nil, fmt.Errorf("%s %s: %w", c.Name, u.Name, err)
				}
				if kept.finished(o, tree) {
					o.Progress("%s %s (%d of %d): has a result of this tree", c.Name, u.Name, i+1, len(c.Units))
				} else {
					o.Progress("%s %s (%d of %d): %s", c.Name, u.Name, i+1, len(c.Units), o.expects(u.Takes, left))
					done := o.measure(ctx, c, u, tree)
					if ctx.Err() == nil { // a unit that was interrupted has no result
						if err := save(o.Out, done); err != nil {
							return nil, err
						}
						if kept = done; done.Error != "" {
							errs = append(errs, fmt.Errorf("%s %s: %s", c.Name, u.Name, done.Error))
						}
					}
				}
			}
			if kept != nil {
				if err := kept.derive(u); err != nil {
					return nil, fmt.Errorf("%s: %w; remove the file to measure again", file(o.Out, c.Name, u.Name), err)
				}
				all = append(all, kept)
			}
		}
	}
	if len(all) > 0 {
		errs = append(errs, writePages(o.Out, chapters, all))
	}
	return all, errors.Join(append(errs, ctx.Err())...)
}

// left is how long the units take that are to be run, in their full form.
func (o *Options) left(chapters []Chapter) (d time.Duration) {
	for _, c := range chapters {
		for _, u := range c.Units {
			if o.chosen(c, u) {
				d += u.Takes
			}
		}
	}
	return d
}

// expects says how long a unit takes, and what comes after it.
func (o *Options) expects(takes, after time.Duration) string {
	if o.Smallest || o.Seconds > 0 {
		return "shorter than in full, which takes " + roughly(takes)
	}
	if after == 0 {
		return "about " + roughly(takes)
	}
	return fmt.Sprintf("about %s, then %s for the others, less what has a result", roughly(takes), roughly(after))
}

// remaining adds to a unit's progress how much of its time is left.
func (o *Options) remaining(takes time.Duration) func(string, ...any) {
	if o.Smallest || o.Seconds > 0 || takes < time.Minute {
		return o.Progress
	}
	begin := time.Now()
	return func(format string, args ...any) {
		text := "about to end"
		if d := takes - time.Since(begin); d > time.Minute {
			text = "about " + roughly(d) + " left"
		}
		o.Progress("%s [%s]", fmt.Sprintf(format, args...), text)
	}
}

// chosen reports whether a unit is to be run.
func (o *Options) chosen(c Chapter, u Unit) bool {
	return !o.Pages && (slices.Contains(o.Chapters, c.Name+"/"+u.Name) || !u.Asked && (len(o.Chapters) == 0 || slices.Contains(o.Chapters, c.Name)))
}

// derive makes the finding of a finished result again, with this version's words and verdicts.
func (x *Outcome) derive(u Unit) error {
	if u.Derive == nil || x.Finding == nil {
		return nil
	}
	data, err := json.Marshal(x.Data)
	if err != nil {
		return err
	}
	f, err := u.Derive(data)
	if err != nil {
		return err
	}
	f.Data, x.Finding = x.Data, f
	x.withoutVerdicts()
	return nil
}

// withoutVerdicts: in a smallest run too little was measured for one.
func (x *Outcome) withoutVerdicts() {
	if !x.Setting.Smallest {
		return
	}
	for i := range x.Lines {
		if x.Lines[i].Agrees != nil {
			x.Lines[i].Agrees, x.Lines[i].Reason = nil, "smallest run: no verdict"
		}
	}
}

// finished reports whether a kept result of this tree makes a run unnecessary.
func (x *Outcome) finished(o Options, tree string) bool {
	return x != nil && !o.Again && x.Error == "" && x.Tree == tree && x.Setting.Smallest == o.Smallest && x.Setting.Seconds == o.Seconds
}

// measure runs one unit.
func (o *Options) measure(ctx context.Context, c Chapter, u Unit, tree string) *Outcome {
	x := &Outcome{Chapter: c.Name, Unit: u.Name, Tree: tree, Version: version.Version, Command: o.command(c.Name + "/" + u.Name), Setting: o.Setting,
		Begun: time.Now().UTC().Truncate(time.Second), Machine: Machine{Kernel: rig.KernelRelease(), CPU: rig.CPUModel(), CPUs: runtime.NumCPU(), LoadStart: loadAverage()}}
	begin := time.Now()
	set := o.Setting
	set.Progress = o.remaining(u.Takes)
	f, err := u.Run(ctx, set)
	x.Seconds, x.Machine.LoadEnd = time.Since(begin).Round(100*time.Millisecond).Seconds(), loadAverage()
	switch {
	case err != nil:
		x.Error = err.Error()
	case f == nil || len(f.Lines) == 0:
		x.Error = "the unit found nothing"
	default:
		x.Finding = f
		x.withoutVerdicts()
	}
	return x
}

// loadAverage is the machine's, of the last 1, 5 and 15 minutes.
func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	f := strings.Fields(string(data))
	return strings.Join(f[:min(3, len(f))], " ")
}
