# Workers are threads here, and processes where an invocation is handed over: both are counted.
unset SAPWOOD_TEST_CHECKOUT_WORKERS

# test_checkout_workers <number> <command>...: whether the command uses that many checkout workers.
test_checkout_workers () {
	referee_expected=$1
	shift
	referee_trace=$PWD/referee-trace
	rm -f "$referee_trace"
	(
		GIT_TRACE2_EVENT=$referee_trace
		export GIT_TRACE2_EVENT
		"$@"
	) || return
	referee_counted=$(grep -c \
		-e '"event":"thread_start".*"thread":"[^"]*checkout_worker' \
		-e '"event":"child_start".*"checkout--worker"' "$referee_trace")
	rm "$referee_trace"
	test "$referee_counted" = "$referee_expected"
}
