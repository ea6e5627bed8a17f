//! Figures published when Git gained parallel checkout: commit 7531e4b66e ("parallel-checkout: add
//! configuration options"), on linux v5.8, caches cold. The machines and disks differ from ours,
//! so only the ratios are comparable.

/// A label, sequential and parallel seconds with their deviations, and the speed-up.
type Line<What> = (What, (f64, f64), (f64, f64), f64);

const CHECKOUTS: [(&str, [Line<&str>; 3]); 4] = [
    (
        "local SSD, 10 workers",
        [
            ("clone", (8.805, 0.043), (3.564, 0.041), 2.47),
            ("checkout I", (9.678, 0.057), (4.486, 0.050), 2.16),
            ("checkout II", (5.034, 0.072), (3.021, 0.038), 1.67),
        ],
    ),
    (
        "local HDD, 10 workers",
        [
            ("clone", (32.288, 0.580), (30.724, 0.522), 1.05),
            ("checkout I", (54.172, 7.119), (54.429, 6.738), 1.00),
            ("checkout II", (40.465, 2.402), (38.682, 1.365), 1.05),
        ],
    ),
    (
        "NFS v4.1 on EBS, 32 workers",
        [
            ("clone", (240.368, 6.347), (57.349, 0.870), 4.19),
            ("checkout I", (242.862, 2.215), (58.700, 0.904), 4.14),
            ("checkout II", (65.751, 1.577), (23.820, 0.407), 2.76),
        ],
    ),
    (
        "EFS, 32 workers",
        [
            ("clone", (922.321, 2.274), (210.453, 3.412), 4.38),
            ("checkout I", (1011.300, 7.346), (297.828, 0.964), 3.40),
            ("checkout II", (294.104, 1.836), (126.017, 1.190), 2.33),
        ],
    ),
];

/// By number of files that `checkout -f` writes on the local SSD: milliseconds sequential and with
/// 10 workers, with their deviations, and the speed-up.
const THRESHOLD: [Line<usize>; 8] = [
    (10, (772.3, 12.6), (769.0, 13.6), 1.00),
    (20, (780.5, 15.8), (775.2, 9.2), 1.01),
    (50, (806.2, 13.8), (767.4, 8.5), 1.05),
    (100, (833.7, 21.4), (750.5, 16.8), 1.11),
    (200, (897.6, 30.9), (730.5, 14.7), 1.23),
    (500, (1035.4, 48.0), (677.1, 22.3), 1.53),
    (1000, (1244.6, 35.6), (654.0, 38.3), 1.90),
    (2000, (1488.8, 53.4), (658.8, 23.8), 2.26),
];

pub(super) fn print() {
    println!("\nGit's own figures of 2021 (linux v5.8, cold; I: from v2.6.15, II: from v5.7):");
    for (disk, lines) in CHECKOUTS {
        println!("  {disk}");
        for (case, (one, one_by), (many, many_by), speedup) in lines {
            println!(
                "    {case:<12} {one:>9.3} s ± {one_by:.3} {many:>9.3} s ± {many_by:.3}   {speedup:.2} times, {:.3} of it",
                many / one
            );
        }
    }
    println!("  files on the SSD: sequential, 10 workers");
    for (files, (one, one_by), (many, many_by), speedup) in THRESHOLD {
        println!(
            "    {files:>5} {one:>7.1} ms ± {one_by:<4} {many:>6.1} ms ± {many_by:<4} {speedup:.2} times"
        );
    }
}
