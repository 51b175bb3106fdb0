package service

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
)

func TestContainerMemory(t *testing.T) {
	files := func(pairs ...string) fstest.MapFS {
		m := fstest.MapFS{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
		}
		return m
	}
	for name, tt := range map[string]struct {
		files fstest.MapFS
		want  int
	}{
		"no control groups": {files(), 0},
		"version 2 in a container": {files("proc/self/cgroup", "0::/\n",
			"sys/fs/cgroup/memory.max", "536870912\n"), 512 << 20},
		"version 2, unit of systemd": {files("proc/self/cgroup", "0::/system.slice/vitrine.service\n",
			"sys/fs/cgroup/system.slice/vitrine.service/memory.max", "1073741824\n",
			"sys/fs/cgroup/system.slice/memory.max", "max\n"), 1 << 30},
		"version 2, the group above allows less": {files("proc/self/cgroup", "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max", "1073741824\n", "sys/fs/cgroup/a/memory.max", "1048576\n"), 1 << 20},
		"version 2, no limit": {files("proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.max", "max\n"), 0},
		"version 1 in a container": {files("proc/self/cgroup", "9:memory:/docker/abc\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n"), 256 << 20},
		"version 1, with other controllers": {files("proc/self/cgroup", "4:cpu,memory:/x\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes", "268435456\n"), 256 << 20},
		"version 1, no limit": {files("proc/self/cgroup", "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"), 0},
		"nonsense": {files("proc/self/cgroup", "\n::\nmemory\n0::/../..\n", "sys/fs/cgroup/memory.max", "much\n"), 0},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, containerMemory(tt.files)) })
	}
}

// The limits follow from the container unless the operator has said how much memory there is.
func TestMemoryFollowsFromContainer(t *testing.T) {
	require.Equal(t, 768<<20, withMemory(server.Limits{}, 1<<30).MaxMemory)
	require.Equal(t, 300<<20, withMemory(server.Limits{MaxMemory: 300 << 20}, 1<<30).MaxMemory)
	require.Zero(t, withMemory(server.Limits{}, 0).MaxMemory)
	require.Zero(t, withMemory(server.Limits{}, 1<<20).MaxMemory, "too little to derive anything from")
	require.Zero(t, withMemory(server.Limits{MaxTaskBytes: 2 << 30}, 1<<30).MaxMemory, "what is set does not fit")
}
