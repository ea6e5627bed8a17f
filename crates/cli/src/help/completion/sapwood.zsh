#compdef sapwood
# Completion of sapwood for zsh, written by 'sapwood completion zsh'.

_sapwood_git() {
  command git $sapwood_place "$@" 2>/dev/null
}

_sapwood_branches() {
  local -a found=(
    ${(f)"$(_sapwood_git for-each-ref '--format=%(refname:strip=2)' refs/heads)"}
    ${${(f)"$(_sapwood_git for-each-ref '--format=%(refname:strip=3)' refs/remotes)"}:#HEAD}
  )
  _wanted branches expl branch compadd -a found
}

_sapwood_revisions() {
  local -a found=(
    HEAD
    ${(f)"$(_sapwood_git for-each-ref '--format=%(refname:short)' refs/heads refs/tags refs/remotes)"}
  )
  _wanted revisions expl revision compadd -a found
}

_sapwood_revisions_and_files() {
  # After '--' come paths.
  if (( ${words[(I)--]} && ${words[(i)--]} < CURRENT )); then
    _files
    return
  fi
  _alternative 'revisions:revision:_sapwood_revisions' 'files:file:_files'
}

_sapwood_worktrees() {
  local -a found=(${${(M)${(f)"$(_sapwood_git worktree list --porcelain)"}:#worktree *}#worktree })
  _wanted worktrees expl worktree compadd -a found
}

# A directory with a record is a workspace.
_sapwood_workspaces() {
  local common=$(_sapwood_git rev-parse --path-format=absolute --git-common-dir)
  local -a found=($common/sapwood/workspaces/*/record(N:h:t))
  _wanted workspaces expl workspace compadd -a found
}

_sapwood_commands() {
  local -a commands=(
@NAMES@
  )
  _describe -t commands 'sapwood command' commands
}

# Completes a subcommand from the array 'subcommands', or what follows it.
_sapwood_subcommand() {
  local curcontext=$curcontext state line
  _arguments -C '1: :->subcommand' '*:: :->arguments'
  case $state in
    subcommand) _describe -t commands 'subcommand' subcommands ;;
    arguments)
      local function=_sapwood_$1_${line[1]//-/_}
      (( $+functions[$function] )) && $function
      ;;
  esac
}

@FUNCTIONS@
_sapwood() {
  local curcontext=$curcontext state line ret=1
  local -a sapwood_place
  local -A opt_args
  _arguments -C -S \
    '(- *)'{-v,--version}'[print the version]' \
    '(- *)'{-h,--help}'[print the commands by task]' \
    '*-C[run as if started in a directory]:directory:_files -/' \
    '*-c[override a setting]:setting: ' \
    '--git-dir=[use this Git directory]:directory:_files -/' \
    '--work-tree=[use this worktree]:directory:_files -/' \
    '--bare[treat the repository as bare]' \
    {-P,--no-pager}'[write to the terminal directly]' \
    '--no-optional-locks[take no locks that the command can do without]' \
    '--verbose[print the number of workers of each phase]' \
    '--profile=-[print where the time went]:: :_files' \
    '1: :->command' \
    '*:: :->arguments' && ret=0
  (( $+opt_args[-C] )) && sapwood_place+=(-C ${(e)${(Q)opt_args[-C]}/#\~/$HOME})
  (( $+opt_args[--git-dir] )) && sapwood_place+=(--git-dir=${(Q)opt_args[--git-dir]})
  case $state in
    command) _sapwood_commands && ret=0 ;;
    arguments)
      local function=_sapwood_${line[1]//-/_}
      if (( $+functions[$function] )); then
        curcontext="${curcontext%:*:*}:sapwood-${line[1]}:"
        $function && ret=0
      else
        _files && ret=0
      fi
      ;;
  esac
  return ret
}

# A file on fpath is the function itself; a script that is evaluated registers it.
if [[ ${funcstack[1]} == _sapwood ]]; then
  _sapwood "$@"
else
  compdef _sapwood sapwood
fi
