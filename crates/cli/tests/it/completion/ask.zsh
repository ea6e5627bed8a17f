# Asks zsh's completion, in a shell of its own on a terminal of its own.
# Usage: zsh -f ask.zsh <script> <line>. <script> is read, <line> is typed, and TAB after it.
# Prints the matches, one a line; descriptions follow " # ".
zmodload zsh/zpty
export ANSWER=$(mktemp) SCRIPT=$1
zpty shell zsh -f -i
tell() { zpty -w shell "$1"; }
wait_for() { repeat 400; do [[ $(<$ANSWER) == *$1* ]] && return; sleep 0.05; done; print -u2 "no $1"; }
tell 'PS1= PS2= ; stty -echo'
tell 'autoload -Uz compinit && compinit -D -u && source $SCRIPT'
# Completion functions add matches by compadd. This one also writes them down, unless it is only
# asked to filter an array.
tell 'compadd() {
  local -a __hits __texts; local -i __at
  [[ ${@[1,(i)(-|--)]} == *-[OAD](| *) ]] && { builtin compadd "$@"; return }
  __at=${@[(i)-d]}
  (( __at < $# )) && __texts=("${(@P)@[__at + 1]}")
  builtin compadd -O __hits -D __texts "$@"
  for __at in {1..$#__hits}; do
    (( $#__hits )) && print -r -- "$__hits[__at] # $__texts[__at]" >> $ANSWER
  done
  builtin compadd "$@"
}'
tell 'finish() { print _end >> $ANSWER; exit }; zle -N finish; bindkey "^X" finish; bindkey "^I" complete-word'
tell 'print _ready >> $ANSWER'
wait_for _ready
zpty -n -w shell "$2"$'\t'
zpty -n -w shell $'\x18'
wait_for _end
zpty -d shell
grep -vx '_ready\|_end' $ANSWER
rm -f $ANSWER
exit 0
