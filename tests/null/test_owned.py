"""Owned: each handle is released exactly once, by any thread, and never inside a garbage collection."""

import dis
import gc
import os
import sys
import threading

import pytest

from tests.subject import module

owned, errors = module("ownership"), module("errors")


class Thing(owned.Owned):
    def __init__(self, log, handle=7, borrowed=False):
        self._own(handle, None if borrowed else owned.Once(lambda late: log.append((handle, late))))


@pytest.fixture
def log():
    owned.drain()
    return []


def test_close_releases_once(log):
    thing = Thing(log)
    assert thing.handle == 7 and not thing.closed
    thing.close()
    thing.close()
    assert log == [(7, False)] and thing.closed


def test_a_closed_handle_says_so(log):
    thing = Thing(log)
    thing.close()
    with pytest.raises(errors.Closed, match="Thing is closed"):
        thing.handle
    with pytest.raises(errors.Closed):
        thing.detach()
    with pytest.raises(errors.Closed):
        with thing:
            pass


def test_with_closes_also_when_it_fails(log):
    with pytest.raises(KeyError):
        with Thing(log):
            raise KeyError
    assert log == [(7, False)]


def test_detach_gives_the_handle_away(log):
    thing = Thing(log)
    assert thing.detach() == 7
    thing.close()
    del thing
    owned.drain()
    assert log == []


@pytest.mark.parametrize("end", ["close", "detach"])
def test_an_object_reacts_once_to_the_end_of_its_handle(log, end):
    class Reacting(Thing):
        ends = 0

        def _closing(self):
            self.ends += 1

    thing = Reacting(log)
    getattr(thing, end)()
    thing.close()
    assert thing.ends == 1


def test_borrowed_is_never_released(log):
    thing = Thing(log, borrowed=True)
    assert thing.borrowed
    thing.close()
    assert thing.closed
    owned.drain()
    assert log == []


def test_dropping_only_enqueues(log):
    Thing(log)
    gc.collect()
    assert log == []
    owned.drain()
    assert log == [(7, True)]


def test_closing_another_drains(log):
    Thing(log, 1)
    Thing(log, 2).close()
    assert sorted(log) == [(1, True), (2, False)]


def test_two_closes_at_once_release_once(log):
    for _ in range(200):
        thing, start = Thing(log), threading.Barrier(4)

        def close():
            start.wait()
            thing.close()

        threads = [threading.Thread(target=close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(log) == 200


def test_close_and_detach_at_once_do_not_both_win(log):
    given = []
    for _ in range(200):
        thing, start = Thing(log), threading.Barrier(2)

        def detach():
            start.wait()
            try:
                given.append(thing.detach())
            except errors.Closed:
                pass

        thread = threading.Thread(target=detach)
        thread.start()
        start.wait()
        thing.close()
        thread.join()
    assert len(log) + len(given) == 200


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_releases_nothing(python):
    result = python("""
        import os, sys
        from tests.subject import module
        owned = module("ownership")
        module("interpreter.cpython").watch_forks(owned.note_fork)
        class Thing(owned.Owned):
            def __init__(self):
                self._own(7, owned.Once(lambda late: os.write(1, b"released ")))
        kept, dropped = Thing(), Thing()
        del dropped
        pid = os.fork()
        if pid == 0:
            kept.close()
            owned.drain()
            os._exit(0)
        os.waitpid(pid, 0)
        os.write(1, b"parent: ")
        kept.close()
    """)
    assert result.stdout == "parent: released released "


def test_a_closed_object_leaves_nothing_to_do(log):
    thing = Thing(log)
    thing.close()
    del thing
    gc.collect()
    assert not owned.dropped and log == [(7, False)]


def test_what_was_given_away_already_cannot_be_given_again(log):
    thing = Thing(log)
    assert thing._release.give_away() and not thing._release.give_away()  # as another thread does in close()
    with pytest.raises(errors.Closed, match="its handle cannot be given away"):
        thing.detach()
    assert log == []


def test_an_interrupt_of_close_comes_out_and_the_handle_is_released_later(log):
    interrupts = [KeyboardInterrupt]

    class Interrupted(owned.Once):
        def release(self, late):
            while interrupts:
                raise interrupts.pop()
            super().release(late)

    thing = Thing(log, borrowed=True)
    thing._own(7, Interrupted(lambda late: log.append((7, late))))
    with pytest.raises(KeyboardInterrupt):
        thing.close()
    assert thing.closed and log == []
    owned.drain()
    assert log == [(7, False)]  # as close() does it: work may use it


def test_a_release_that_raises_is_told_once():
    class Defective:
        def __init__(self, error):
            self.errors = [error]

        def release(self, late):
            if self.errors:
                raise self.errors.pop()
            done.append(self)

    done = []
    for error, again in ((ValueError, False), (KeyboardInterrupt, True), (RecursionError, True), (MemoryError, True)):
        owned.dropped.append(defective := Defective(error))
        with pytest.raises(error):
            owned.drain()
        owned.drain()
        assert (defective in done) is again and not owned.dropped


def test_what_is_refused_costs_each_drain_little(log):
    """A thousand arrays that a capture does not let go made each call that drains a thousand times slower."""

    class Refused:
        def __init__(self, number):
            self.number = number

        def release(self, late):
            log.append(self.number)
            return may

    may = False
    owned.dropped.extend(map(Refused, range(1000)))
    for _ in range(50):
        owned.drain()
    assert len(log) == 50 * 16 and len(set(log)) == 50 * 16  # each is tried again only after all the others
    Thing(last := [])
    for _ in range(1000 // 16 + 1):
        owned.drain()
    assert last == [(7, True)] and len(owned.dropped) == 1000
    log.clear()
    may = True
    owned.drain()
    assert sorted(log) == list(range(1000)) and not owned.dropped


def test_every_token_becomes_false_if_two_threads_made_one_at_once():
    first, second = owned.token(), [True]
    owned.tokens.append(second)  # as another thread does in token(), if both find the list empty
    owned.invalidate()
    assert not first and not second and not owned.tokens


def test_an_interrupt_at_any_instruction_of_drain_loses_no_release(log):
    """A signal handler may run between any two instructions of it."""
    code, number = owned.drain.__code__, 0
    skipped = [each.offset for each in dis.get_instructions(code) if each.opname == "NOP"]  # no signal is handled there

    def tracer(frame, event, argument):
        nonlocal left
        if frame.f_code is not code:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_lasti not in skipped:
            left -= 1
            if not left:
                raise KeyboardInterrupt
        return tracer

    while True:
        number, left = number + 1, number + 1
        thing = Thing(log, number)
        del thing
        before = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # 3.12 reports opcodes only if a frame asks for them before settrace
        sys.settrace(tracer)
        try:
            owned.drain()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        owned.drain()
        assert [each for each, _ in log] == list(range(1, number + 1))
        if left > 0:
            break
    assert number > 20
