# Functions of sapwood for zsh, written by 'sapwood shell-init zsh'.

# Sets 'common' to the common directory of the repository that contains the current directory, and
# 'name' to the name of the workspace. Reads one file at most, and starts no program.
_sapwood_place() {
  emulate -L zsh
  local dir=$PWD line=
  [[ $dir == / ]] && dir=
  common= name=
  while [[ ! -e $dir/.git ]]; do
    [[ $dir == /* ]] || return 1
    dir=${dir%/*}
  done
  common=$dir/.git
  [[ -f $common && -r $common ]] || return 0
  IFS= read -r line <$common
  [[ $line == 'gitdir: '* ]] || return 1
  line=${line#gitdir: }
  [[ $line == /* ]] || line=$dir/$line
  common=${line%/worktrees/*}
  [[ $line == */worktrees/* && -e $common/sapwood/workspaces/${line##*/}/record ]] && name=${line##*/}
  return 0
}

# Changes into a workspace: sw NAME. Creates it first: sw -c NAME [COMMIT]. Lists them: sw.
sw() {
  emulate -L zsh
  local dir code
  if (( $# == 0 )); then
    command sapwood workspace list
    return
  fi
  if [[ $1 == -c && $# -ge 2 && $# -le 3 && $2 != -* && $3 != -* ]]; then
    shift
    command sapwood workspace create "$@" >&2 || return
  elif [[ $# != 1 || $1 == -* ]]; then
    print -u2 'usage: sw [[-c] <workspace> [<commit>]]'
    return 129
  fi
  dir=$(command sapwood workspace dir -- "$1")
  code=$?
  case $code in
    0) cd -- $dir ;;
    # Only processes of sapwood see its files.
    3) command sapwood workspace enter -- "$1" ;;
    *) return $code ;;
  esac
}

_sw() {
  local common name
  _sapwood_place || return 1
  local -a found=($common/sapwood/workspaces/*/record(N:h:t))
  compadd -a found
}
(( $+functions[compdef] )) && compdef _sw sw

# A '%' in a name is no escape of the prompt, and control characters do not reach the terminal: the
# file that names the workspace may be another user's.
_sapwood_prompt() {
  local common name
  _sapwood_place
  name=${name//[[:cntrl:]]/?}
  typeset -g sapwood_workspace=${name//\%/%%}
}
autoload -Uz add-zsh-hook && add-zsh-hook precmd _sapwood_prompt
