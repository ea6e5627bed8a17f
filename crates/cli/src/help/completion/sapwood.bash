# Completion of sapwood for bash, written by 'sapwood completion bash'.

# Sets 'options', 'words', 'first' and 'arguments' for a command, or for a command and its subcommand.
_sapwood_command() {
    case $1 in
@COMMANDS@
    esac
}

# Sets 'kind' for the value of an option. 'switch --track=': the value can only be stuck to it.
_sapwood_value() {
    case $1 in
@VALUES@
    esac
}

# Names of refs and paths are only compared: bash would run what stands in them.
_sapwood_matching() {
    local line
    while IFS= read -r line; do
        if [[ $line == "$current"* ]]; then
            printf -v line '%q' "$line"
            COMPREPLY+=("$start$line")
        fi
    done
}

_sapwood_refs() {
    git "${place[@]}" for-each-ref "$@" 2>/dev/null
}

# A directory with a record is a workspace.
_sapwood_workspaces() {
    local common record
    common=$(git "${place[@]}" rev-parse --path-format=absolute --git-common-dir 2>/dev/null) || return
    for record in "$common"/sapwood/workspaces/*/record; do
        record=${record%/record}
        [[ -d $record ]] && printf '%s\n' "${record##*/}"
    done
}

# Offers values of a kind that begin with 'current'.
_sapwood_offer() {
    case $1 in
        none) compopt +o default +o bashdefault 2>/dev/null ;;
        files) ;;
        directories)
            compopt -o dirnames +o default +o bashdefault 2>/dev/null
            ;;
        words)
            compopt +o default +o bashdefault 2>/dev/null
            _sapwood_matching < <(printf '%s\n' "${words[@]}")
            ;;
        branches)
            compopt +o default +o bashdefault 2>/dev/null
            _sapwood_matching < <(
                _sapwood_refs --format='%(refname:strip=2)' refs/heads
                _sapwood_refs --format='%(refname:strip=3)' refs/remotes | grep -vx HEAD
            )
            ;;
        revisions | revisions_and_files)
            [[ $1 == revisions ]] && compopt +o default +o bashdefault 2>/dev/null
            _sapwood_matching < <(
                echo HEAD
                _sapwood_refs --format='%(refname:short)' refs/heads refs/tags refs/remotes
            )
            ;;
        worktrees)
            _sapwood_matching < <(
                git "${place[@]}" worktree list --porcelain 2>/dev/null | sed -n 's/^worktree //p'
            )
            ;;
        workspaces)
            compopt +o default +o bashdefault 2>/dev/null
            _sapwood_matching < <(_sapwood_workspaces)
            ;;
    esac
}

_sapwood() {
    local -a line=() place=() options=() words=()
    local word glued= first= arguments=files kind= start= current command= name
    local -i at
    COMPREPLY=()

    # bash cuts words at '='. They are put together again.
    for ((at = 0; at <= COMP_CWORD; at++)); do
        word=${COMP_WORDS[at]}
        if [[ $word == = && ${line[${#line[@]} - 1]} == --* ]]; then
            line[${#line[@]} - 1]+='='
            glued=1
        elif [[ $glued ]]; then
            line[${#line[@]} - 1]+=$word
            glued=
        else
            line+=("$word")
        fi
    done
    current=${line[${#line[@]} - 1]}

    # The options before the command.
    for ((at = 1; at < ${#line[@]} - 1; at++)); do
        word=${line[at]}
        case $word in
            -C)
                place+=(-C "${line[at + 1]/#\~/$HOME}")
                at+=1
                ;;
            -c) at+=1 ;;
            --git-dir | --work-tree | --attr-source | --config-env) at+=1 ;;
            --git-dir=*) place+=("$word") ;;
            -*) ;;
            *)
                command=$word
                break
                ;;
        esac
    done
    if [[ ! $command ]]; then
        word=${line[${#line[@]} - 2]}
        if [[ ${#line[@]} -gt 2 && $word == -C ]]; then
            _sapwood_offer directories
            return
        fi
@NAMES@
        if [[ $current == -* ]]; then
            words=(--version --help -C -c --git-dir= --work-tree= --no-pager --no-optional-locks
                --bare --verbose --profile)
        fi
        _sapwood_offer words
        return
    fi

    _sapwood_command "$command"
    if [[ ${#words[@]} -gt 0 && $((at + 1)) -lt $((${#line[@]} - 1)) && ${line[at + 1]} != -* ]]; then
        name=${line[at + 1]}
        at+=1
        words=()
        first=
        arguments=files
        # A word that is no subcommand leaves the options as they are.
        _sapwood_command "$command $name"
        if [[ ${#options[@]} -gt 0 || ${#words[@]} -gt 0 ]]; then
            command+=" $name"
        fi
    fi

    # The value of an option.
    word=${line[${#line[@]} - 2]}
    if [[ $current == --*=* ]]; then
        name=${current%%=*}
        current=${current#*=}
        [[ $COMP_WORDBREAKS == *=* ]] || start=$name=
        _sapwood_value "$command $name "
        [[ $kind ]] || _sapwood_value "$command $name="
        _sapwood_offer "${kind:-none}"
        return
    fi
    if [[ $word == -* && $((at + 1)) -lt $((${#line[@]} - 1)) ]]; then
        _sapwood_value "$command $word "
        if [[ $kind ]]; then
            _sapwood_offer "$kind"
            return
        fi
    fi

    # After '--' come paths.
    for ((at++; at < ${#line[@]} - 1; at++)); do
        [[ ${line[at]} == -- ]] && return
        [[ ${line[at]} == -* ]] || first=
    done
    if [[ $current == -* ]]; then
        words=("${options[@]}")
        _sapwood_offer words
    elif [[ ${#words[@]} -gt 0 ]]; then
        _sapwood_offer words
    else
        _sapwood_offer "${first:-$arguments}"
    fi
}

complete -o bashdefault -o default -F _sapwood sapwood
