# Simulates one SCTP flow over a link with random loss, and prints a trace of the packets in the data direction.
#
#   ns sctp.tcl LOSS SEED SECONDS [RTT_MS] [RATE_MBIT]
#
# All settings are those of ns-default.tcl: chunks of 1468 bytes with their headers, a receive window of 65,536 bytes, delayed
# SACKs. Losses are Bernoulli in the data direction, after the queue. The first columns of a trace line are the event (+ enters
# the queue, r arrives) and the time. The last letter of the flags is the chunk type (D is DATA). Column 12 is the TSN; the first
# is 1.

set loss [lindex $argv 0]
set seed [lindex $argv 1]
set seconds [lindex $argv 2]
set rtt_ms [expr {$argc > 3 ? [lindex $argv 3] : 80}]
set rate [expr {$argc > 4 ? [lindex $argv 4] : 10}]

ns-random $seed
Trace set show_sctphdr_ 1
set ns [new Simulator]
set a [$ns node]
set b [$ns node]
$ns duplex-link $a $b ${rate}Mb [expr {$rtt_ms / 2.0}]ms DropTail
$ns queue-limit $a $b 10000
$ns queue-limit $b $a 10000
if {$loss > 0} {
    set model [new ErrorModel]
    $model unit pkt
    $model set rate_ $loss
    set random [new RandomVariable/Uniform]
    $random use-rng [new RNG]
    $model ranvar $random
    $model drop-target [new Agent/Null]
    $ns lossmodel $model $a $b
}
set source [new Agent/SCTP]
set sink [new Agent/SCTP]
$ns attach-agent $a $source
$ns attach-agent $b $sink
$ns connect $source $sink
set ftp [new Application/FTP]
$ftp attach-agent $source
set out [open "|cat" w]
$ns trace-queue $a $b $out
$ns at 0.0 "$ftp start"
$ns at $seconds "exit 0"
$ns run
