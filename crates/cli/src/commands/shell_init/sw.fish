# Functions of sapwood for fish, written by 'sapwood shell-init fish'.

# Sets __sapwood_common to the common directory of the repository that contains the current
# directory, and __sapwood_name to the name of the workspace. Reads one file at most, and starts no
# program.
function __sapwood_place
    set -g __sapwood_common
    set -g __sapwood_name
    set -l dir (string replace -r '^/$' '' -- $PWD)
    while not test -e "$dir/.git"
        # A path with a newline is a list, which this loop does not shorten.
        string match -q '/*' -- "$dir"; or return 1
        set dir (string replace -r '/[^/]*$' '' -- $dir)
    end
    set __sapwood_common $dir/.git
    test -f $__sapwood_common; and test -r $__sapwood_common; or return 0
    read -l line <$__sapwood_common
    string match -q 'gitdir: *' -- $line; or return 1
    set line (string replace 'gitdir: ' '' -- $line)
    string match -q '/*' -- $line; or set line $dir/$line
    set __sapwood_common (string replace -r '/worktrees/[^/]*$' '' -- $line)
    set -l last (string replace -r '.*/' '' -- $line)
    if test $line != $__sapwood_common; and test -e $__sapwood_common/sapwood/workspaces/$last/record
        set __sapwood_name $last
    end
    return 0
end

# Changes into a workspace: sw NAME. Creates it first: sw -c NAME [COMMIT]. Lists them: sw.
function sw --description 'Change into a workspace'
    if test (count $argv) = 0
        command sapwood workspace list
        return
    end
    if test $argv[1] = -c; and contains (count $argv) 2 3; and not string match -q -- '-*' $argv[2..]
        set -e argv[1]
        command sapwood workspace create $argv >&2; or return
    else if test (count $argv) != 1; or string match -q -- '-*' $argv[1]
        echo 'usage: sw [[-c] <workspace> [<commit>]]' >&2
        return 129
    end
    set -l dir (command sapwood workspace dir -- $argv[1])
    set -l code $status
    switch $code
        case 0
            cd -- $dir
        case 3
            # Only processes of sapwood see its files.
            command sapwood workspace enter -- $argv[1]
        case '*'
            return $code
    end
end

function __sapwood_sw_names
    __sapwood_place; or return
    for record in $__sapwood_common/sapwood/workspaces/*/record
        string replace -r '.*/([^/]*)/record$' '$1' -- $record
    end
end
complete -c sw -f -a '(__sapwood_sw_names)'
complete -c sw -s c -d 'create it first'

function __sapwood_prompt --on-event fish_prompt
    # The exit code of the last command stays for the prompt.
    set -l code $status
    __sapwood_place
    set -e sapwood_workspace
    # Control characters do not reach the terminal: the file that names the workspace may be another
    # user's.
    set -l shown (string replace -ra '[[:cntrl:]]' '?' -- "$__sapwood_name")
    test -n "$shown"; and set -g sapwood_workspace $shown
    return $code
end
