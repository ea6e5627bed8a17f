# Functions of sapwood for bash, written by 'sapwood shell-init bash'.

# Sets 'common' to the common directory of the repository that contains the current directory, and
# 'name' to the name of the workspace. Reads one file at most, and starts no program.
_sapwood_place() {
    local dir=$PWD line=
    common= name=
    while [[ ! -e $dir/.git ]]; do
        [[ $dir == /* ]] || return 1
        dir=${dir%/*}
    done
    common=$dir/.git
    [[ -f $common && -r $common ]] || return 0
    IFS= read -r line <"$common"
    [[ $line == 'gitdir: '* ]] || return 1
    line=${line#gitdir: }
    [[ $line == /* ]] || line=$dir/$line
    common=${line%/worktrees/*}
    [[ $line == */worktrees/* && -e $common/sapwood/workspaces/${line##*/}/record ]] && name=${line##*/}
    return 0
}

# Changes into a workspace: sw NAME. Creates it first: sw -c NAME [COMMIT]. Lists them: sw.
sw() {
    local dir code
    if [[ $# == 0 ]]; then
        command sapwood workspace list
        return
    fi
    if [[ $1 == -c && $# -ge 2 && $# -le 3 && $2 != -* && $3 != -* ]]; then
        shift
        command sapwood workspace create "$@" >&2 || return
    elif [[ $# != 1 || $1 == -* ]]; then
        echo 'usage: sw [[-c] <workspace> [<commit>]]' >&2
        return 129
    fi
    dir=$(command sapwood workspace dir -- "$1")
    code=$?
    case $code in
        0) cd -- "$dir" ;;
        # Only processes of sapwood see its files.
        3) command sapwood workspace enter -- "$1" ;;
        *) return "$code" ;;
    esac
}

_sw() {
    local common name record current=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=()
    _sapwood_place || return 0
    for record in "$common"/sapwood/workspaces/*/record; do
        record=${record%/record}
        record=${record##*/}
        [[ $record != '*' && $record == "$current"* ]] && COMPREPLY+=("$(printf %q "$record")")
    done
}
complete -F _sw sw

# Keeps the exit code for the prompt. A name has no control characters for the terminal: the file
# that names it may be another user's.
_sapwood_prompt() {
    local code=$? common name
    _sapwood_place
    sapwood_workspace=${name//[[:cntrl:]]/?}
    return "$code"
}
if [[ "${PROMPT_COMMAND[*]}" != *_sapwood_prompt* ]]; then
    if [[ "$(declare -p PROMPT_COMMAND 2>/dev/null)" == 'declare -a'* ]]; then
        PROMPT_COMMAND=(_sapwood_prompt "${PROMPT_COMMAND[@]}")
    else
        PROMPT_COMMAND=_sapwood_prompt${PROMPT_COMMAND:+$'\n'$PROMPT_COMMAND}
    fi
fi
