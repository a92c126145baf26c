package dist

import (
	"sync/atomic"
	"time"
)

// WorkerStats are what a worker does and has done. Bytes are those of frames.
type WorkerStats struct {
	Serving    bool          // Serve is running
	Run        string        // the run that it serves; empty if none
	Tasks      int64         // computed, to the end
	Cancelled  int64         // called off, before or while they were computed
	Computing  time.Duration // spent on tasks
	Updating   time.Duration // spent on gradients and updates of shards
	QueueTasks int           // tasks that wait
	QueueBytes int64         // operands that wait
	Shards     int           // held for the run
	Kept       int           // shards kept for a coordinator that has gone
	BytesIn    int64         // from coordinators; what peers send is not counted
	BytesOut   int64
}

// workerTotals are counted where it happens, without a lock.
type workerTotals struct {
	serving             atomic.Bool
	tasks, cancelled    atomic.Int64
	computing, updating atomic.Int64 // nanoseconds
	bytesIn, bytesOut   atomic.Int64 // of sessions that are over
}

// Stats returns the totals so far.
func (w *Worker) Stats() WorkerStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := &w.totals
	stats := WorkerStats{
		Serving: t.serving.Load(), Kept: len(w.kept.shards), Tasks: t.tasks.Load(), Cancelled: t.cancelled.Load(),
		Computing: time.Duration(t.computing.Load()), Updating: time.Duration(t.updating.Load()),
		BytesIn: t.bytesIn.Load(), BytesOut: t.bytesOut.Load(),
	}
	if w.session != nil {
		w.session.addTo(&stats)
	}
	return stats
}

// addTo adds what a session has at present.
func (s *session) addTo(stats *WorkerStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats.Run = s.run
	stats.Shards, stats.QueueTasks, stats.QueueBytes = len(s.shards), len(s.tasks), s.queued.Load()
	stats.BytesIn += s.conn.BytesIn()
	stats.BytesOut += s.conn.BytesOut()
}

// count adds the bytes of a session that is over.
func (t *workerTotals) count(c *Conn) {
	t.bytesIn.Add(c.BytesIn())
	t.bytesOut.Add(c.BytesOut())
}

// updated adds the time since an operation of a shard began.
func (t *workerTotals) updated(began time.Time) { t.updating.Add(int64(time.Since(began))) }
