// SPDX-License-Identifier: Apache-2.0

// Package howto follows the pages of docs/how-to word for word, each in network namespaces of its own, as readers
// would on machines. A page names its network in its front matter (`network: NAME`, see networks), or several, and is followed in each.
// Its fences are
//
//	```sh on=MACHINE           commands for that machine's shell, as root; they must succeed
//	```yaml file=PATH on=MACHINE   a file's contents
//	```text expect             output of the preceding commands: each of these lines, in this order,
//	                           among others; … matches anything, and spaces count as one
//
// Commands may take half a minute; those that compute for longer on a busy machine say how long: patience=DURATION.
//
// Other fences are not run. Each machine is a network namespace with file systems of its own for /etc/tidegate,
// /run/tidegate, /var/lib/tidegate and /sys/fs/bpf. Where a page uses systemctl, the machine's unit files are used,
// but not their sandbox: there is no systemd in a namespace (see unit.go).
//
// What a page needs of a machine beyond that (containers, a Kubernetes node, a workshop) is in kinds; commands that
// only a larger installation has, such as systemctl, scp and kubectl, are stand-ins (standIns), each with its limits in its file.
package howto
