// Drives simple-git through its public interface; its own suite is in no registry. Each step prints
// one TAP line that holds the answer, so two runs are the same if their lines are.
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync, chmodSync } from 'node:fs';
import path from 'node:path';
import { simpleGit } from 'simple-git';

const root = path.join(process.env.TMPDIR, 'simple-git');
mkdirSync(root);
const at = (...names) => path.join(root, ...names);
const write = (text, ...names) => {
  mkdirSync(path.dirname(at(...names)), { recursive: true });
  writeFileSync(at(...names), text);
};

// The library passes no `GIT_` variable on, so the clock cannot be set: dates are left out, and
// each commit gets the number of its first appearance.
const commits = [];
const steady = (text) =>
  text
    .replace(/\d{4}-\d\d-\d\dT[\d:]+(Z|[-+]\d\d:\d\d)|\w{3} \w{3} \d+ [\d:]{8} \d{4} [-+]\d{4}/g, '<date>')
    .replace(/\b[0-9a-f]{40}\b|\b[0-9a-f]{7}\b/g, (name) => {
      const short = name.slice(0, 7);
      if (!commits.includes(short)) commits.push(short);
      return `<${name.length}:${commits.indexOf(short)}>`;
    });
const shown = (answer) => JSON.stringify(answer, (_, value) => (typeof value === 'string' ? steady(value) : value));

let count = 0;
async function step(name, work) {
  count += 1;
  try {
    const answer = await work();
    console.log(`ok ${count} - ${name}: ${shown(answer)}`);
  } catch (error) {
    console.log(`not ok ${count} - ${name}: ${shown(error.message)}`);
  }
}

const outside = simpleGit(root);
await step('checkIsRepo outside', () => outside.checkIsRepo());
await step('status outside', () => outside.status());
await step('init', () => outside.init(['origin']));
const git = simpleGit(at('origin'));
await step('checkIsRepo', () => git.checkIsRepo());
await step('status before the first commit', () => git.status());
write('one\n', 'origin', 'a');
write('two\n', 'origin', 'dir', 'b');
write('*.log\n', 'origin', '.gitignore');
write('noise\n', 'origin', 'x.log');
await step('status with untracked files', () => git.status());
await step('status --ignored', () => git.status(['--ignored']));
await step('checkIgnore', () => git.checkIgnore(['a', 'x.log', 'dir/y.log']));
await step('add', () => git.add('.'));
await step('status with staged files', () => git.status());
await step('commit', () => git.commit('first'));
await step('addTag', () => git.addTag('v1'));
await step('addAnnotatedTag', () => git.addAnnotatedTag('v1.1', 'annotated'));
await step('checkoutLocalBranch', () => git.checkoutLocalBranch('topic'));
write('one\nmore\n', 'origin', 'a');
rmSync(at('origin', 'dir', 'b'));
chmodSync(at('origin', '.gitignore'), 0o755);
symlinkSync('a', at('origin', 'link'));
await step('status of changes', () => git.status());
await step('diff', () => git.diff());
await step('diffSummary', () => git.diffSummary());
await step('diffSummary --numstat', () => git.diffSummary(['--numstat']));
await step('raw ls-files', () => git.raw('ls-files', '-s', '-m', '-d', '-o'));
await step('checkout a path', () => git.checkout(['--', 'dir/b']));
await step('add a path', () => git.add(['a', 'link']));
await step('diff --cached', () => git.diff(['--cached']));
await step('mv', () => git.mv('dir/b', 'moved'));
await step('status of a rename', () => git.status());
await step('reset a path', () => git.reset(['--', 'link']));
await step('commit -a', () => git.commit('second', undefined, { '-a': null }));
await step('checkout refused', () => git.checkout('nowhere'));
await step('checkout', () => git.checkout('master'));
await step('branch', () => git.branch());
await step('branchLocal', () => git.branchLocal());
await step('checkoutBranch', () => git.checkoutBranch('other', 'v1'));
write('other\n', 'origin', 'a');
await step('checkout over local changes', () => git.checkout('topic'));
await step('checkout -f', () => git.checkout('topic', ['-f']));
await step('checkout -', () => git.checkout('-'));
write('theirs\n', 'origin', 'a');
await step('commit a conflict', () => git.commit('third', 'a'));
await step('merge conflict', () => git.merge(['topic']));
await step('status of a conflict', () => git.status());
await step('checkout --ours', () => git.checkout(['--ours', 'a']));
await step('read a', async () => readFileSync(at('origin', 'a'), 'utf8'));
await step('checkout --theirs', () => git.checkout(['--theirs', 'a']));
await step('reset --merge', () => git.reset(['--merge']));
await step('status after reset', () => git.status());
await step('stash nothing', () => git.stash());
write('stashed\n', 'origin', 'a');
await step('stash', () => git.stash());
await step('stashList', () => git.stashList());
await step('stash pop', () => git.stash(['pop']));
await step('reset --hard', () => git.reset(['--hard', 'HEAD']));
await step('clean -n', () => git.clean('n'));
await step('clean -f', () => git.clean('f', ['-d']));
await step('clean -fdx', () => git.clean('fdx'));
await step('deleteLocalBranch refused', () => git.deleteLocalBranch('topic'));
await step('deleteLocalBranch forced', () => git.deleteLocalBranch('topic', true));
await step('revparse', () => git.revparse(['HEAD', 'v1.1^{commit}']));
await step('log', () => git.log());
await step('show', () => git.show(['--stat', 'HEAD']));
await step('tags', () => git.tags());
await step('getConfig', () => git.getConfig('user.name'));
await step('addConfig', () => git.addConfig('checkout.defaultRemote', 'origin'));
await step('worktree add', () => git.raw('worktree', 'add', '-b', 'wt', '../wt', 'v1'));
await step('worktree list', () => git.raw('worktree', 'list', '--porcelain'));
await step('status of a worktree', () => simpleGit(at('wt')).status());
await step('worktree remove', () => git.raw('worktree', 'remove', '../wt'));

await step('clone', () => outside.clone(at('origin'), 'clone'));
const clone = simpleGit(at('clone'));
await step('status of a clone', () => clone.status());
await step('getRemotes', () => clone.getRemotes(true));
await step('branch -a', () => clone.branch(['-a']));
await step('checkout a remote branch', () => clone.checkout('master'));
await step('fetch', () => clone.fetch());
write('pushed\n', 'clone', 'new');
await step('add and commit', async () => [await clone.add('new'), await clone.commit('fourth')]);
await step('status ahead', () => clone.status());
await step('pull', () => clone.pull());
await step('push refused', () => clone.push('origin', 'nowhere'));
await step('push', () => clone.push(['origin', 'HEAD:pushed']));
await step('mirror', () => outside.mirror(at('origin'), 'mirror.git'));
await step('clone --bare', () => outside.clone(at('origin'), 'bare.git', ['--bare']));
await step('clone --depth', () => outside.clone(`file://${at('origin')}`, 'shallow', { '--depth': 1 }));
await step('clone into a directory that is taken', () => outside.clone(at('origin'), 'clone'));
await step('clone of nothing', () => outside.clone(at('nowhere'), 'none'));
await step('catFile', () => clone.catFile(['-p', 'HEAD^{tree}']));
await step('listRemote', () => clone.listRemote(['--heads']));
await step('raw sparse-checkout', () => clone.raw('sparse-checkout', 'set', 'dir'));
await step('status of a sparse worktree', () => clone.status());
await step('sparse-checkout disable', () => clone.raw('sparse-checkout', 'disable'));
await step('submoduleAdd refused', () => clone.submoduleAdd(at('origin'), 'sub'));
await step('rm', () => clone.rm('a'));
await step('rmKeepLocal', () => clone.rmKeepLocal('new'));
await step('status after rm', () => clone.status());
await step('switch', () => clone.raw('switch', '--detach', '-f', 'v1'));
await step('restore', () => clone.raw('restore', '--source', 'v1', '--staged', '--worktree', '.'));
await step('status of a detached HEAD', () => clone.status());
await step('reflog', () => clone.raw('reflog'));
console.log(`1..${count}`);
