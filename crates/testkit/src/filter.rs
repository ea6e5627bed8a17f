//! The common part of long-running filters.

/// The protocol in Perl, and the handshake: a filter's script begins with it. `lines()` returns the
/// lines up to a flush packet, `content()` the content up to one; `packet()` and `flush()` send the
/// response.
pub const FILTER_PROTOCOL: &str = r#"
use strict; use warnings;
$| = 1; binmode STDIN; binmode STDOUT;
sub read_packet {
    read(STDIN, my $head, 4) == 4 or exit 0;
    my $len = hex($head); return undef if $len == 0;
    read(STDIN, my $data, $len - 4); return $data;
}
sub packet { printf STDOUT "%04x%s", length($_[0]) + 4, $_[0]; }
sub flush { print STDOUT "0000"; }
sub lines { my @all; while (defined(my $line = read_packet())) { chomp $line; push @all, $line; } return @all; }
sub content { my $all = ""; while (defined(my $part = read_packet())) { $all .= $part; } return $all; }
lines(); packet("git-filter-server\n"); packet("version=2\n"); flush();
lines(); packet("capability=$_\n") for qw(clean smudge delay); flush();
"#;
