// SPDX-License-Identifier: Apache-2.0

// Command gen writes what is made from the table of fields (internal/config/fields.go): the tables in
// docs/configuration.md, between their marks, and the JSON schema for editors. Whatever else stands in the
// document it leaves alone.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"tidegate/internal/config"
)

func main() {
	document := flag.String("md", "", "Markdown file whose tables are replaced")
	schema := flag.String("schema", "", "JSON schema to write")
	flag.Parse()
	if err := generate(*document, *schema); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func generate(document, schemaFile string) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	filled, err := fill(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	if err := os.WriteFile(document, []byte(filled), 0o644); err != nil {
		return err
	}
	out, err := json.MarshalIndent(schema(), "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(schemaFile, append(out, '\n'), 0o644)
}

// marks enclose what is generated in the document: the name of a table or of an example follows the first.
var marks = []struct {
	begin, end string
	make       func(name string) (string, error)
}{
	{"<!-- fields: ", "<!-- end of fields -->", table},
	{"<!-- example: ", "<!-- end of example -->", example},
}

// fill replaces what stands between the marks.
func fill(text string) (string, error) {
	for _, m := range marks {
		var out strings.Builder
		filled := 0
		for {
			before, rest, found := strings.Cut(text, m.begin)
			out.WriteString(before)
			if !found {
				break
			}
			name, rest, ok := strings.Cut(rest, " -->\n")
			_, after, ok2 := strings.Cut(rest, m.end)
			if !ok || !ok2 {
				return "", fmt.Errorf("%q is not closed by %q", m.begin+name, m.end)
			}
			made, err := m.make(name)
			if err != nil {
				return "", err
			}
			out.WriteString(m.begin + name + " -->\n" + made + m.end)
			text = after
			filled++
		}
		if filled == 0 {
			return "", fmt.Errorf("nothing is marked by %q", m.begin)
		}
		text = out.String()
	}
	return text, nil
}

var services = []string{config.RoleHost, config.RoleProxy, config.RoleEdge, config.RoleServer}

// of says whether a field stands in the table with this name: `common`, `services`, or a role.
func of(f *config.Field, name string) bool {
	common := true
	for _, role := range services {
		common = common && slices.ContainsFunc(config.Fields(), func(g config.Field) bool { return g.Name == f.Name && slices.Contains(g.Roles, role) })
	}
	service := strings.HasPrefix(f.Name, "services.")
	switch name {
	case "services":
		return service
	case "common":
		return !service && slices.ContainsFunc(services, func(r string) bool { return slices.Contains(f.Roles, r) }) && (common || strings.HasPrefix(f.Name, "report_to"))
	case config.RolePatrol, config.RoleBorderManager, config.RoleFilterManager:
		return slices.Contains(f.Roles, name)
	default:
		return !service && !common && !strings.HasPrefix(f.Name, "report_to") && slices.Contains(f.Roles, name)
	}
}

// only says to whom of a table a field belongs, if not to all.
func only(f *config.Field, name string) string {
	var parts []string
	var missing bool
	for _, role := range services {
		missing = missing || !slices.Contains(f.Roles, role)
	}
	if (name == "common" || name == "services") && missing {
		parts = append(parts, "Roles "+strings.Join(f.Roles, ", "))
		if len(f.Roles) == 1 {
			parts[0] = "Role " + f.Roles[0]
		}
	}
	if len(f.Planes) > 0 && !slices.Contains([]string{config.RolePatrol, config.RoleBorderManager, config.RoleFilterManager}, name) {
		var words []string
		for _, p := range f.Planes {
			if p != config.PlaneDPDK || slices.Contains(f.Roles, config.RoleProxy) && name != config.RoleEdge {
				words = append(words, "`"+string(p)+"`")
			}
		}
		parts = append(parts, "plane "+strings.Join(words, " or "))
	}
	if len(parts) == 0 {
		return ""
	}
	text := strings.Join(parts, ", ")
	return strings.ToUpper(text[:1]) + text[1:] + ": "
}

// lacks says which words planes do not have.
func lacks(f *config.Field) (text string) {
	for _, p := range []config.Plane{config.PlaneXDP, config.PlaneDPDK, config.PlaneP4} {
		if words := f.Lacks[p]; len(words) > 0 {
			text += "; plane `" + string(p) + "` has no `" + strings.Join(words, "`, `") + "`"
		}
	}
	return text
}

func table(name string) (string, error) {
	var out strings.Builder
	out.WriteString("| field | default | values | a change | meaning |\n|---|---|---|---|---|\n")
	rows := 0
	for _, f := range config.Fields() {
		if !of(&f, name) {
			continue
		}
		short := strings.TrimPrefix(f.Name, "services.")
		def := quoted(f.Default)
		if f.DefaultPart.Of != "" {
			def = f.DefaultPart.String()
		}
		if w := f.DefaultWith; w.Field != "" {
			def = fmt.Sprintf("`%s`; `%s` with `%s`", f.Default, w.Default, w.Field)
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s | %s%s%s |\n", short, def, f.Range(), change(&f, name), only(&f, name), f.Text, lacks(&f))
		rows++
	}
	if rows == 0 {
		return "", fmt.Errorf("table %q has no field", name)
	}
	return out.String(), nil
}

func quoted(def string) string {
	switch {
	case def == "":
		return "none"
	case strings.ContainsAny(def, " `") || def == "required" || def == "all":
		return def
	}
	return "`" + def + "`"
}

// situations are those that a field can be in: roles, and what of a role decides whether a change is live.
func situations(f *config.Field, name string) (all []string) {
	for _, role := range f.Roles {
		if name != "common" && name != "services" && role != name {
			continue
		}
		planes := f.Planes
		switch role {
		case config.RoleServer:
			all = append(all, role+"/adopt", role+"/translate")
		case config.RoleProxy, config.RoleEdge:
			if len(planes) == 0 {
				planes = []config.Plane{config.PlaneXDP, config.PlaneP4}
				if role == config.RoleProxy {
					planes = append(planes, config.PlaneDPDK)
				}
			}
			for _, p := range planes {
				switch {
				case p == config.PlaneXDP:
					all = append(all, role)
				case p != config.PlaneDPDK || role == config.RoleProxy:
					all = append(all, role+"/"+string(p))
				}
			}
		default:
			all = append(all, role)
		}
	}
	return all
}

// change says, of one table, where a reload brings a change into force.
func change(f *config.Field, name string) string {
	var live, not []string
	for _, at := range situations(f, name) {
		if slices.Contains(f.Live, at) {
			live = append(live, situation(at))
		} else {
			not = append(not, situation(at))
		}
	}
	live, not = slices.Compact(slices.Sorted(slices.Values(live))), slices.Compact(slices.Sorted(slices.Values(not)))
	switch {
	case len(live) == 0:
		return "restart"
	case len(not) == 0:
		return "live"
	case len(not) == 1 && len(live) > 1:
		return "live, but not " + not[0]
	}
	return "live: " + strings.Join(live, ", ")
}

func situation(at string) string {
	role, what, _ := strings.Cut(at, "/")
	switch {
	case role == config.RoleServer:
		return "`takeover: " + what + "`"
	case what != "":
		return "`plane: " + what + "`"
	case role == config.RoleProxy || role == config.RoleEdge:
		return "`plane: xdp`"
	}
	return "role " + role
}

// schema describes a file to an editor: names, kinds, words and ranges. What depends on other fields is left
// to `tidegate check`.
func schema() map[string]any {
	top := map[string]any{}
	inner := map[string]map[string]any{}
	required, lists := map[string][]string{}, map[string]bool{}
	for _, f := range config.Fields() {
		in, name, nested := strings.Cut(f.Name, ".")
		lists[f.Name] = f.Kind == config.Mappings
		if nested {
			if inner[in] == nil {
				inner[in] = map[string]any{}
			}
			inner[in][name] = property(&f)
			if f.Default == "required" && !slices.Contains(required[in], name) {
				required[in] = append(required[in], name)
			}
			continue
		}
		p := property(&f)
		if other, twice := top[f.Name]; twice { // of another role, with other values
			p = either(other.(map[string]any), p)
		}
		top[f.Name] = p
	}
	for name, fields := range inner {
		object := map[string]any{"type": "object", "additionalProperties": false, "properties": fields}
		if len(required[name]) > 0 {
			object["required"] = required[name]
		}
		description := top[name].(map[string]any)["description"]
		if lists[name] {
			top[name] = map[string]any{"type": "array", "items": object, "description": description}
			if name != "exceptions" { // which may be empty
				top[name].(map[string]any)["minItems"] = 1
			}
			continue
		}
		object["description"] = description
		top[name] = object
	}
	return map[string]any{
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"title":                "Tidegate configuration",
		"type":                 "object",
		"additionalProperties": false,
		"properties":           top,
	}
}

// either is what has one of two forms.
func either(a, b map[string]any) map[string]any {
	if reflect.DeepEqual(a, b) {
		return a
	}
	list, joined := a["anyOf"].([]any)
	if !joined || a["description"] != nil {
		list = []any{a}
	}
	if slices.ContainsFunc(list, func(old any) bool { return reflect.DeepEqual(old, b) }) {
		return a
	}
	return map[string]any{"anyOf": append(list, b)}
}

func property(f *config.Field) map[string]any {
	p := map[string]any{"description": f.Text + " Roles: " + strings.Join(f.Roles, ", ") + "."}
	number := map[string]any{"type": "integer", "minimum": f.Low, "maximum": f.High}
	switch f.Kind {
	case config.Words:
		p["enum"] = f.Words
	case config.Number:
		p["type"], p["minimum"], p["maximum"] = "integer", f.Low, f.High
	case config.Auto:
		p["anyOf"] = []any{map[string]any{"const": "auto"}, number}
	case config.Rate64:
		p["anyOf"] = []any{map[string]any{"const": "all"}, number}
	case config.Duration:
		p["type"], p["pattern"] = "string", `^0$|^([0-9.]+(ns|us|µs|ms|s|m|h))+$`
	case config.Share:
		p["anyOf"] = []any{map[string]any{"type": "string", "pattern": `^[0-9.]+ ?%$`}, map[string]any{"type": "number", "exclusiveMinimum": 0, "maximum": 1}}
	case config.YesNo:
		p["enum"] = []any{"yes", "no", true, false}
	case config.List:
		p["type"] = "array"
		if f.Words != nil {
			p["items"] = map[string]any{"enum": f.Words}
		}
	case config.Text:
		p["type"] = "string"
	}
	return p
}
