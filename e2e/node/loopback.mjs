// Preloaded with --import: ends the process with the status 97 as soon as it wants to
// reach anything but this machine, or to start a program, such as a browser.
import childProcess from 'node:child_process';
import diagnostics from 'node:diagnostics_channel';
import dns from 'node:dns';
import { syncBuiltinESMExports } from 'node:module';
import { BlockList } from 'node:net';

function refuse(what) {
  process.stderr.write(`loopback.mjs: ${what}\n`);
  process.exit(97);
}

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

diagnostics.subscribe('net.client.socket', ({ socket }) => {
  socket.on('connectionAttempt', (ip, port, family) => {
    if (!loopback.check(ip, family === 6 ? 'ipv6' : 'ipv4')) {
      refuse(`connection to ${ip} port ${port}`);
    }
  });
});

const { lookup } = dns;
dns.lookup = (name, ...rest) => name === 'localhost' || refuse(`look-up of ${name}`) || lookup(name, ...rest);
for (const start of ['spawn', 'spawnSync', 'exec', 'execSync', 'execFile', 'execFileSync', 'fork']) {
  childProcess[start] = command => refuse(`start of ${command}`);
}
syncBuiltinESMExports();
