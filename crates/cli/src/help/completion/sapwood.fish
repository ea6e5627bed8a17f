# Completion of sapwood for fish, written by 'sapwood completion fish'.

# Prints the words before the cursor from the command on, without options.
function __sapwood_words
    set -l words (commandline -opc)
    set -e words[1]
    set -l command
    while set -q words[1]
        switch $words[1]
            case -C -c --git-dir --work-tree --attr-source --config-env
                set -q command[1]; or set -e words[1]
            case '-*'
            case '*'
                set -a command $words[1]
        end
        set -e words[1]
    end
    printf '%s\n' $command
end

# Succeeds if the command line is that of this command, or command and subcommand.
function __sapwood_at
    set -l words (__sapwood_words)
    test (count $words) -ge (count $argv); or return 1
    test "$words[1..$(count $argv)]" = "$argv"
end

# Succeeds if these words are all that was typed.
function __sapwood_exactly
    set -l words (__sapwood_words)
    test "$words" = "$argv"
end

# Runs git where the command line's -C and --git-dir lead.
function __sapwood_git
    set -l words (commandline -opc)
    set -l place
    while set -q words[2]
        switch $words[2]
            case -C
                set -a place -C (string replace -r '^~' $HOME -- $words[3])
                set -e words[2]
            case -c
                set -e words[2]
            case '--git-dir=*'
                set -a place $words[2]
            case '-*'
            case '*'
                break
        end
        set -e words[2]
    end
    git $place $argv 2>/dev/null
end

function __sapwood_branches
    __sapwood_git for-each-ref --format='%(refname:strip=2)%09branch' refs/heads
    __sapwood_git for-each-ref --format='%(refname:strip=3)%09remote branch' refs/remotes | string match -rv '^HEAD\t'
end

function __sapwood_revisions
    echo HEAD
    __sapwood_git for-each-ref --format='%(refname:short)' refs/heads refs/tags refs/remotes
end

function __sapwood_worktrees
    __sapwood_git worktree list --porcelain | string replace -rf '^worktree ' ''
end

# A directory with a record is a workspace.
function __sapwood_workspaces
    set -l common (__sapwood_git rev-parse --path-format=absolute --git-common-dir)
    set -l records $common/sapwood/workspaces/*/record
    string replace -rf '.*/([^/]+)/record$' '$1' -- $records
end

function __sapwood_commands
@NAMES@
end

complete -c sapwood -e
complete -c sapwood -n __sapwood_exactly -s v -l version -d 'Print the version'
complete -c sapwood -n __sapwood_exactly -s h -l help -d 'Print the commands by task'
complete -c sapwood -n __sapwood_exactly -s C -r -f -a '(__fish_complete_directories)' -d 'Run as if started in a directory'
complete -c sapwood -n __sapwood_exactly -s c -x -d 'Override a setting'
complete -c sapwood -n __sapwood_exactly -l git-dir -r -d 'Use this Git directory'
complete -c sapwood -n __sapwood_exactly -l work-tree -r -d 'Use this worktree'
complete -c sapwood -n __sapwood_exactly -s P -l no-pager -d 'Write to the terminal directly'
complete -c sapwood -n __sapwood_exactly -l no-optional-locks -d 'Take no locks that the command can do without'
complete -c sapwood -n __sapwood_exactly -l bare -d 'Treat the repository as bare'
complete -c sapwood -n __sapwood_exactly -l verbose -d 'Print the number of workers of each phase'
complete -c sapwood -n __sapwood_exactly -l profile -d 'Print where the time went'
@COMMANDS@
