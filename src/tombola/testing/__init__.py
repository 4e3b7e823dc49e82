"""Public test suites: subclass one in a test file of your own and pytest runs it on your part.

>>> from tombola.order import Lanes
>>> from tombola.testing import OrderTests
>>> class TestMyOrder(OrderTests):
...     spec = Lanes(lanes=4, window=2)
"""

from tombola.testing._formats import FormatTests
from tombola.testing._orders import OrderTests
from tombola.testing._steps import StepTests
from tombola.testing._stores import StoreTests

__all__ = ["FormatTests", "OrderTests", "StepTests", "StoreTests"]
