"""Names that tell different tasks of one name apart."""

from mrafno.tasks import Burgers
from mrafno.tasks.labels import task_key, task_labels
from mrafno.tasks.stored import task_as_json
from tests import runs


def fivefold(f, level):
    return 5 * runs.smooth(f, level)


def test_tasks_are_the_same_by_what_they_are_and_not_by_their_name():
    same = [task_as_json(task) for task in (runs.tiny(), runs.tiny())]
    assert task_key(same[0]) == task_key(same[1])
    assert task_labels(same) == ["tiny", "tiny"]
    others = [runs.tiny(fivefold), runs.tiny(n=39), runs.tiny3(), Burgers(), Burgers(viscosity=0.01)]
    found = [task_key(task_as_json(task)) for task in (runs.tiny(), *others)]
    assert len(set(found)) == 6


def test_different_tasks_of_one_name_get_different_labels():
    tasks = [task_as_json(task) for task in (runs.tiny(), runs.tiny(fivefold), runs.tiny(), Burgers())]
    first, second, third, other = task_labels(tasks)
    assert first == third != second
    assert first.startswith("tiny #")
    assert second.startswith("tiny #")
    assert other == "burgers"


def test_what_earlier_versions_recorded_has_a_key():
    old = {k: v for k, v in task_as_json(runs.tiny()).items() if k not in ("inputs", "simulator")}
    assert task_labels([old, old]) == ["tiny", "tiny"]
